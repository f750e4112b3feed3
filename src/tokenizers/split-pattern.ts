// Cuts text into the pieces inside which merges happen, and translates the regular expressions of
// tokenizer.json, which are written for Oniguruma, to JavaScript ones that match the same. Not a
// full translation: constructs that the two engines treat differently, or that no known tokenizer
// uses, are refused, and the caller falls back to the library. Differences bridged here: `(?i:...)`
// (Node 20 has none, and Oniguruma folds "ſ" to "s" and the Kelvin sign to "k"), `\s` (JavaScript's
// has U+FEFF and lacks U+0085), `.`, and escapes that the `u` flag forbids.

import type { Steps } from "../lib/steps.ts";

const generalCategory = /^(?:L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?)$/;
const scripts = new Set(["Arabic", "Cyrillic", "Devanagari", "Greek", "Han", "Hangul", "Hebrew", "Hiragana", "Katakana", "Latin", "Thai"]); // prettier-ignore
/** Pairs that one character folds to ("ß" to "ss", "ﬁ" to "fi"), which single-letter classes cannot express. */
const foldedPairs = /ss|ff|fi|fl|st/i;
const folds: Readonly<Record<string, string>> = { k: "kK\u212a", s: "sS\u017f" };

/** A construct that is not supported; the message names it. */
export class UnsupportedPattern extends Error {}

/**
 * A sticky Unicode regular expression that matches what Oniguruma would. Throws an {@link UnsupportedPattern} for every
 * construct outside the small common language.
 */
export function translatePattern(pattern: string): RegExp {
  try {
    return new RegExp(translate(pattern), "uy");
  } catch (error) {
    if (error instanceof SyntaxError) throw new UnsupportedPattern(error.message);
    throw error;
  }
}

/** A sticky regular expression for exactly this text. */
export function literalPattern(text: string): RegExp {
  return new RegExp(Array.from(text, escapeCharacter).join(""), "uy");
}

/** The parts of a pattern. Text that none of them matches is refused. */
const part =
  /(?<open>\((?:\?(?:[:=!]|i:)|(?!\?)))|(?<close>\))|(?<or>\|)|\[(?<members>\^?(?:\\[^]|[^\\\]])+)\]|\\(?<escape>[pP]\{\w+\}|[^pP])|(?<quantifier>[*+?]|\{\d+(?:,\d*)?\})|(?<literal>[^\\()[\]{}|^$*+?])/uy;

type Group = { readonly opening: string; readonly start: number; readonly ignoreCase: boolean };

function translate(pattern: string): string {
  const refuse = (met: string): UnsupportedPattern =>
    new UnsupportedPattern(`the pattern "${pattern}" has ${met}, which is not supported`);
  const groups: Group[] = [];
  let translated = "";
  /** The item that a quantifier would repeat. */
  let last: "nothing" | "atom" | "lookahead" = "nothing";
  for (let at = 0; at < pattern.length; at = part.lastIndex) {
    part.lastIndex = at;
    const found = part.exec(pattern)?.groups;
    if (found === undefined) throw refuse(JSON.stringify(pattern.slice(at, at + 2)));
    const { open, close, or, members, escape, quantifier, literal } = found;
    const ignoreCase = groups.at(-1)?.ignoreCase ?? false;
    if (ignoreCase && (members !== undefined || /^p/i.test(escape ?? ""))) throw refuse("a class that ignores case");
    if (ignoreCase && quantifier !== undefined) throw refuse("a quantifier that ignores case");
    if (open !== undefined) {
      groups.push({ opening: open, start: at + open.length, ignoreCase: ignoreCase || open === "(?i:" });
      translated += open === "(" || open === "(?i:" ? "(?:" : open;
    } else if (close !== undefined) {
      const group = groups.pop();
      if (group === undefined) throw refuse('")" without "("');
      if (group.ignoreCase && foldedPairs.test(pattern.slice(group.start, at))) {
        throw refuse("a case-insensitive pair that one character folds to");
      }
      translated += ")";
      last = group.opening === "(?=" || group.opening === "(?!" ? "lookahead" : "atom";
      continue;
    } else if (quantifier !== undefined) {
      if (last !== "atom") throw refuse(`"${quantifier}" after ${last === "nothing" ? "nothing" : "a lookahead"}`);
      const isLazy = pattern[part.lastIndex] === "?" && !quantifier.startsWith("{");
      if (isLazy) part.lastIndex++;
      // "a++" is possessive to Oniguruma, and "a{2}?" greedy.
      else if (/[+?*]/.test(pattern[part.lastIndex] ?? "")) throw refuse("a possessive or doubled quantifier");
      translated += quantifier + (isLazy ? "?" : "");
    } else if (or !== undefined) translated += or;
    else if (members !== undefined) translated += `[${translateMembers(members, refuse)}]`;
    else if (escape !== undefined) translated += translateEscape(escape, refuse);
    else if (literal === ".") translated += "[^\\n]";
    else translated += ignoreCase ? foldCase(literal!, refuse) : escapeCharacter(literal!);
    last = (members ?? escape ?? literal) ? "atom" : "nothing";
  }
  if (groups.length > 0) throw refuse("an unclosed group");
  return translated;
}

type Refuse = (met: string) => UnsupportedPattern;

/** Translates the members of a class, `^` included. */
function translateMembers(members: string, refuse: Refuse): string {
  if (members === "^") throw refuse("an empty class");
  if (/\[|&&/.test(members.replace(/\\[^]/g, ""))) throw refuse("a nested class");
  return members.replace(/^\^|\\([pP]\{\w*\}|[^])|[^]/gu, (character, escape: string | undefined, at: number) => {
    if (escape !== undefined) return translateEscape(escape, refuse);
    const isRange = character === "-" && at > (members.startsWith("^") ? 1 : 0) && at + 1 < members.length;
    return isRange || (character === "^" && at === 0) ? character : escapeCharacter(character);
  });
}

const escapes: Readonly<Record<string, string>> = {
  s: "\\p{White_Space}",
  S: "\\P{White_Space}",
  d: "\\p{Nd}",
  D: "\\P{Nd}",
  r: "\\r",
  n: "\\n",
  t: "\\t",
};

/** Translates an escape, given without its backslash. */
function translateEscape(escape: string, refuse: Refuse): string {
  const [, letter, name = ""] = /^([pP])\{(\w+)\}$/.exec(escape) ?? [];
  if (letter !== undefined && scripts.has(name)) return `\\${letter}{Script=${name}}`;
  if (letter !== undefined && generalCategory.test(name)) return `\\${escape}`;
  if (Object.hasOwn(escapes, escape)) return escapes[escape]!;
  if (/[\p{L}\p{N}]/u.test(escape)) throw refuse(`"\\${escape}"`);
  return escapeCharacter(escape);
}

function foldCase(character: string, refuse: Refuse): string {
  if (character > "\u007f") throw refuse("a case-insensitive character outside ASCII");
  const lower = character.toLowerCase();
  const upper = character.toUpperCase();
  return lower === upper ? escapeCharacter(character) : `[${folds[lower] ?? lower + upper}]`;
}

function escapeCharacter(character: string): string {
  return /[\p{L}\p{N}]/u.test(character) ? character : `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}

export type NormalForm = "NFC" | "NFD" | "NFKC" | "NFKD";

export function normalizeText(text: string, forms: readonly NormalForm[]): string {
  return forms.reduce((normal, form) => normal.normalize(form), text);
}

/** One cut. The pattern must be sticky. */
export type SplitStep = {
  readonly pattern: RegExp;
  /** The parts that become pieces: matches and the text between them, or one of the two. */
  readonly keep: "both" | "matches" | "gaps";
};

/** Calls `take` with each piece in order. The pieces of one text are never empty. */
export function splitText(text: string, steps: readonly SplitStep[], take: (piece: string) => void): void {
  splitFrom(text, steps, 0, take);
}

function splitFrom(text: string, steps: readonly SplitStep[], index: number, take: (piece: string) => void): void {
  const step = steps[index];
  if (step === undefined) {
    if (text !== "") take(text);
    return;
  }
  const last = index + 1 === steps.length;
  const pass = last ? take : (piece: string): void => splitFrom(piece, steps, index + 1, take);
  cutOn(text, step, { at: 0, gapStart: 0 }, { until: text.length, pass });
}

/**
 * Length from which a text is cut in several steps; shorter ones take some milliseconds at most.
 */
export const longText = 32_768;

/** Takes the pieces of a long text in order: many short ones at a time, and each long one in steps of its own. */
export type PieceTaker = {
  readonly short: (pieces: readonly string[]) => void;
  readonly long: (piece: string) => Steps<void>;
};

/** The same in steps, for a long text. */
export function* splitInSteps(text: string, steps: readonly SplitStep[], take: PieceTaker, index = 0): Steps<void> {
  const step = steps[index];
  if (step === undefined) {
    yield* take.long(text);
    return;
  }
  const position = { at: 0, gapStart: 0 };
  while (position.gapStart < text.length) {
    const parts: string[] = [];
    cutOn(text, step, position, { until: position.at + longText, pass: (one) => void parts.push(one) });
    let pieces: string[] = [];
    for (const found of parts) {
      if (found.length <= longText) {
        splitFrom(found, steps, index + 1, (piece) => void pieces.push(piece));
      } else {
        take.short(pieces);
        pieces = [];
        yield* splitInSteps(found, steps, take, index + 1);
      }
    }
    take.short(pieces);
    yield;
  }
}

/** The offset at which the pattern is tried next, and the start of the text not yet passed on. */
type CutPosition = { at: number; gapStart: number };

/** Continues to cut until a place in the text; at its end all text has been passed on. */
function cutOn(
  text: string,
  { pattern, keep }: SplitStep,
  position: CutPosition,
  { until, pass }: { readonly until: number; readonly pass: (piece: string) => void },
): void {
  const { length } = text;
  let { at, gapStart } = position;
  while (at < until && at < length) {
    pattern.lastIndex = at;
    if (!pattern.test(text)) {
      at += characterLength(text, at);
      continue;
    }
    // `pass` may use the pattern, so its end is read before that.
    const end = pattern.lastIndex;
    if (gapStart < at && keep !== "matches") pass(text.slice(gapStart, at));
    if (end > at && keep !== "gaps") pass(text.slice(at, end));
    gapStart = end;
    // An empty match is only a boundary.
    at = end > at ? end : at + characterLength(text, at);
  }
  if (at >= length) {
    if (gapStart < length && keep !== "matches") pass(text.slice(gapStart));
    gapStart = length;
  }
  [position.at, position.gapStart] = [at, gapStart];
}

function characterLength(text: string, at: number): number {
  return (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
}

/** Encodings have no lone surrogates; each one becomes U+FFFD. */
export function replaceLoneSurrogates(text: string): string {
  return /[\ud800-\udfff]/.test(text) ? text.replace(/\p{Surrogate}/gu, "\ufffd") : text;
}
