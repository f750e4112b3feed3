// Cuts text into the pieces inside which merges happen, and reads the regular expressions of tokenizer.json, which are written for Oniguruma, as JavaScript ones that match the same.
// Not a full translation: what the two engines understand differently, or what no tokenizer has been seen to use, is
// refused, and the caller falls back to the library. Differences bridged here: `(?i:...)` (Node 20 has none, and
// Oniguruma folds "ſ" to "s" and the Kelvin sign to "k"), `\s` (JavaScript's has U+FEFF and lacks U+0085), `.`, and
// escapes that the `u` flag forbids.

const generalCategory = /^(?:L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?)$/;
const scripts = new Set(["Arabic", "Cyrillic", "Devanagari", "Greek", "Han", "Hangul", "Hebrew", "Hiragana", "Katakana", "Latin", "Thai"]); // prettier-ignore
/** Pairs that one character folds to ("ß" to "ss", "ﬁ" to "fi"), which single-letter classes cannot express. */
const foldedPairs = /ss|ff|fi|fl|st/i;
const folds: Readonly<Record<string, string>> = { k: "kK\u212a", s: "sS\u017f" };

/** What was met that is not understood, in words. */
export class UnsupportedPattern extends Error {}

/**
 * A sticky Unicode regular expression that matches what Oniguruma would. Throws an {@link UnsupportedPattern} for every
 * construct outside the small common language.
 */
export function translatePattern(pattern: string): RegExp {
  try {
    return new RegExp(new PatternReader(pattern).read(), "uy");
  } catch (error) {
    if (error instanceof SyntaxError) throw new UnsupportedPattern(error.message);
    throw error;
  }
}

/** A sticky regular expression for exactly this text. */
export function literalPattern(text: string): RegExp {
  return new RegExp(Array.from(text, escapeCharacter).join(""), "uy");
}

class PatternReader {
  readonly #characters: readonly string[];
  #at = 0;

  constructor(pattern: string) {
    this.#characters = Array.from(pattern);
  }

  read(): string {
    const translated = this.#readAlternatives(false);
    if (this.#at < this.#characters.length) throw this.#refuse(`")" without "("`);
    return translated;
  }

  #readAlternatives(ignoreCase: boolean): string {
    const start = this.#at;
    let translated = "";
    for (;;) {
      const character = this.#characters[this.#at];
      if (character === undefined || character === ")") break;
      translated += character === "|" ? this.#take() : this.#readTerm(ignoreCase);
    }
    const source = this.#characters.slice(start, this.#at).join("");
    if (ignoreCase && foldedPairs.test(source))
      throw this.#refuse("a case-insensitive pair that one character folds to");
    return translated;
  }

  #readTerm(ignoreCase: boolean): string {
    const lookahead = this.#startsWith("(?=") || this.#startsWith("(?!");
    const atom = this.#readAtom(ignoreCase);
    const quantifier = this.#readQuantifier();
    if (lookahead && quantifier !== "") throw this.#refuse("a repeated lookahead");
    if (ignoreCase && quantifier !== "") throw this.#refuse("a quantifier that ignores case");
    return atom + quantifier;
  }

  #readAtom(ignoreCase: boolean): string {
    const character = this.#take();
    switch (character) {
      case "(":
        return this.#readGroup(ignoreCase);
      case "[":
        if (ignoreCase) throw this.#refuse("a class that ignores case");
        return this.#readClass();
      case "\\":
        if (ignoreCase && /[pP]/.test(this.#characters[this.#at] ?? ""))
          throw this.#refuse("a class that ignores case");
        return this.#readEscape();
      case ".":
        return "[^\\n]";
      case "^":
      case "$":
      case "*":
      case "+":
      case "?":
      case "{":
      case "}":
      case "]":
        throw this.#refuse(`"${character}"`);
      default:
        return ignoreCase ? this.#foldCase(character) : escapeCharacter(character);
    }
  }

  #readGroup(ignoreCase: boolean): string {
    const opening = ["?:", "?=", "?!", "?i:"].find((text) => this.#startsWith(text));
    if (opening === undefined && this.#startsWith("?")) throw this.#refuse("a special group");
    this.#at += opening?.length ?? 0;
    const inner = this.#readAlternatives(ignoreCase || opening === "?i:");
    if (this.#take() !== ")") throw this.#refuse("an unclosed group");
    return `(${opening === "?=" || opening === "?!" ? opening : "?:"}${inner})`;
  }

  #readClass(): string {
    let translated = this.#startsWith("^") ? `[${this.#take()}` : "[";
    if (this.#startsWith("]")) throw this.#refuse("an empty class");
    for (;;) {
      const character = this.#take();
      if (character === "]") return `${translated}]`;
      if (character === "[" || (character === "&" && this.#startsWith("&"))) throw this.#refuse("a nested class");
      if (character === "\\") translated += this.#readEscape();
      else if (character === "-" && !this.#startsWith("]") && !/\[\^?$/.test(translated)) translated += "-";
      else translated += escapeCharacter(character);
    }
  }

  #readEscape(): string {
    const character = this.#take();
    switch (character) {
      case "s":
        return "\\p{White_Space}";
      case "S":
        return "\\P{White_Space}";
      case "d":
        return "\\p{Nd}";
      case "D":
        return "\\P{Nd}";
      case "p":
      case "P":
        return this.#readProperty(character);
      case "r":
      case "n":
      case "t":
        return `\\${character}`;
      default:
        if (/[\p{L}\p{N}]/u.test(character)) throw this.#refuse(`"\\${character}"`);
        return escapeCharacter(character);
    }
  }

  #readProperty(letter: string): string {
    const end = this.#characters.indexOf("}", this.#at);
    const written = this.#characters.slice(this.#at, end + 1).join("");
    const name = written.slice(1, -1);
    if (!written.startsWith("{") || !(generalCategory.test(name) || scripts.has(name))) {
      throw this.#refuse(`"\\${letter}${written}"`);
    }
    this.#at = end + 1;
    return `\\${letter}{${scripts.has(name) ? "Script=" : ""}${name}}`;
  }

  #readQuantifier(): string {
    const rest = this.#characters.slice(this.#at, this.#at + 16).join("");
    const quantifier = /^(?:[*+?]|\{\d+(?:,\d*)?\})/.exec(rest)?.[0] ?? "";
    if (quantifier === "") return "";
    this.#at += quantifier.length;
    if (this.#startsWith("?") && !quantifier.startsWith("{")) return quantifier + this.#take();
    // "a++" is possessive to Oniguruma, and "a{2}?" greedy.
    if (this.#startsWith("+") || this.#startsWith("?") || this.#startsWith("*")) {
      throw this.#refuse("a possessive or doubled quantifier");
    }
    return quantifier;
  }

  #foldCase(character: string): string {
    if (character > "\u007f") throw this.#refuse("a case-insensitive character outside ASCII");
    const lower = character.toLowerCase();
    const upper = character.toUpperCase();
    return lower === upper ? escapeCharacter(character) : `[${folds[lower] ?? lower + upper}]`;
  }

  #startsWith(text: string): boolean {
    return this.#characters.slice(this.#at, this.#at + text.length).join("") === text;
  }

  #take(): string {
    const character = this.#characters[this.#at++];
    if (character === undefined) throw this.#refuse("its sudden end");
    return character;
  }

  #refuse(met: string): UnsupportedPattern {
    return new UnsupportedPattern(`the pattern "${this.#characters.join("")}" has ${met}, which is not read here`);
  }
}

function escapeCharacter(character: string): string {
  return /[\p{L}\p{N}]/u.test(character) ? character : `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}

export type NormalForm = "NFC" | "NFD" | "NFKC" | "NFKD";

export function normalizeText(text: string, forms: readonly NormalForm[]): string {
  return forms.reduce((normal, form) => normal.normalize(form), text);
}

/** One cut. The pattern is sticky. */
export type SplitStep = {
  readonly pattern: RegExp;
  /** What becomes pieces: matches and the text between them, or one of the two. */
  readonly keep: "both" | "matches" | "gaps";
};

/** Calls `take` with each piece in order. The pieces of one text are never empty. */
export function splitText(text: string, steps: readonly SplitStep[], take: (piece: string) => void): void {
  applyStep(text, steps, 0, take);
}

function applyStep(text: string, steps: readonly SplitStep[], index: number, take: (piece: string) => void): void {
  const step = steps[index];
  if (step === undefined) {
    if (text !== "") take(text);
    return;
  }
  const last = index + 1 === steps.length;
  const pass = last ? take : (piece: string): void => applyStep(piece, steps, index + 1, take);
  const { pattern, keep } = step;
  const length = text.length;
  let gapStart = 0;
  let at = 0;
  while (at < length) {
    pattern.lastIndex = at;
    if (!pattern.test(text)) {
      at += characterLength(text, at);
      continue;
    }
    // The pattern may have been used by `pass`; its end is read before that.
    const end = pattern.lastIndex;
    if (gapStart < at && keep !== "matches") pass(text.slice(gapStart, at));
    if (end > at && keep !== "gaps") pass(text.slice(at, end));
    gapStart = end;
    // An empty match is a boundary and nothing more.
    at = end > at ? end : at + characterLength(text, at);
  }
  if (gapStart < length && keep !== "matches") pass(text.slice(gapStart));
}

function characterLength(text: string, at: number): number {
  return (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
}
