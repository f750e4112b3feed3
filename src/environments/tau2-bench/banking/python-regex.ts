// Reads regular expressions of Python's module `re` into the structure of `lib/parse-pattern.ts`, as
// its parser does: a text that it refuses is refused here, because the search then takes it
// literally. Groups capture nothing, since only the number of matches counts.

import { PythonError, whitespaceClass, wordCharacters } from "../../../python-semantics/index.ts";
import type { PatternNode } from "../../../lib/parse-pattern.ts";
import { UnreadPatternError } from "../../../lib/parse-pattern.ts";

/** Thrown for a text that Python's `re.compile` refuses with `re.error`. */
export class PatternSyntaxError extends Error {
  override readonly name = "PatternSyntaxError";
}

/** A part of a pattern with the number of characters that it can match. */
type Part = {
  readonly node: PatternNode;
  readonly least: number;
  readonly most: number;
  /** Effect of a quantifier after it: only an item is repeated, others are an error. */
  readonly kind: "item" | "edge" | "repeat";
};

type Flags = {
  readonly isAscii: boolean;
  readonly isMultiline: boolean;
  readonly isDotAll: boolean;
  readonly isVerbose: boolean;
};

const initial: Flags = { isAscii: false, isMultiline: false, isDotAll: false, isVerbose: false };

/** Maximum nesting of groups. */
const mostDepth = 100;

/** The largest number of repetitions, from which Python takes a number for no limit. */
const noLimit = 4294967295;

/**
 * Reads a pattern that ignores case. Throws a {@link PatternSyntaxError} where Python raises
 * `re.error`, an `UnreadPatternError` for a valid pattern that cannot be searched in linear time, and
 * a `PythonError` for a number of repetitions that Python refuses otherwise.
 */
export function readPythonPattern(source: string): PatternNode {
  try {
    return new Reader(source, initial).read();
  } catch (error) {
    if (error instanceof VerboseSignal) return new Reader(source, { ...initial, isVerbose: true }).read();
    throw error;
  }
}

/** Thrown where a flag makes the whole pattern verbose, which is then read again. */
class VerboseSignal extends Error {}

const sequence = (parts: readonly PatternNode[]): PatternNode =>
  parts.length === 1 ? parts[0]! : { type: "sequence", parts };
const set = (source: string): PatternNode => ({ type: "set", source });
const look = (isAhead: boolean, body: PatternNode, isNegative = false): PatternNode => ({
  type: "look",
  isAhead,
  isNegative,
  body,
});
const start: PatternNode = { type: "edge", edge: "start" };
const end: PatternNode = { type: "edge", edge: "end" };
const lineBreak = set("\\n");
const optionalBreak: PatternNode = { type: "repeat", body: lineBreak, min: 0, max: 1, isLazy: false };

/** A character in pattern notation. */
const literal = (character: string): string =>
  /^[A-Za-z0-9 ]$/.test(character) ? character : `\\u{${character.codePointAt(0)!.toString(16)}}`;

const classes = {
  unicode: { d: "\\p{Nd}", s: whitespaceClass, w: wordCharacters },
  ascii: { d: "0-9", s: "\\t-\\r ", w: "A-Za-z0-9_" },
};

const escapes: Readonly<Record<string, string>> = {
  a: "\u0007",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
  "\\": "\\",
};

class Reader {
  /** Code points, with a backslash and the character after it as one item. */
  readonly #items: readonly string[];
  #at = 0;
  #depth = 0;
  #flags: Flags;
  readonly #initial: Flags;
  /** Groups by number, with the widths of the closed ones. */
  readonly #groups: ({ readonly least: number; readonly most: number } | null)[] = [];
  readonly #names = new Map<string, number>();
  /** Why the pattern cannot be searched, although it is valid. */
  #unsupported: string | null = null;
  #typeFlags = "";
  /** The last group on which a part depends; it may come later in the pattern. */
  #condition = 0;

  constructor(source: string, flags: Flags) {
    this.#items = source.match(/\\[^]|[^]/gu) ?? [];
    if (this.#items.at(-1) === "\\") throw new PatternSyntaxError("bad escape (end of pattern)");
    this.#flags = flags;
    this.#initial = flags;
  }

  read(): PatternNode {
    const { node } = this.#choice(true);
    if (this.#at < this.#items.length) throw new PatternSyntaxError("unbalanced parenthesis");
    if (this.#typeFlags.includes("a") && this.#typeFlags.includes("u")) {
      // Python raises a ValueError here, which the search does not catch.
      throw new PythonError("ValueError", "ASCII and UNICODE flags are incompatible");
    }
    if (this.#condition > this.#groups.length) throw new PatternSyntaxError("invalid group reference");
    if (this.#unsupported !== null) throw new UnreadPatternError(this.#unsupported);
    return node;
  }

  #choice(isFirst = false): Part {
    if (++this.#depth > mostDepth) throw new UnreadPatternError("its groups are nested too deeply");
    const options = [this.#sequence(isFirst)];
    while (this.#take("|")) options.push(this.#sequence(false));
    this.#depth--;
    if (options.length === 1) return options[0]!;
    return {
      node: { type: "choice", options: options.map(({ node }) => node) },
      least: Math.min(...options.map(({ least }) => least)),
      most: Math.max(...options.map(({ most }) => most)),
      kind: "item",
    };
  }

  #sequence(isFirst: boolean): Part {
    const parts: Part[] = [];
    for (;;) {
      const item = this.#items[this.#at];
      if (item === undefined || item === "|" || item === ")") break;
      this.#at++;
      if (this.#flags.isVerbose && /^[ \t\n\r\v\f]$/.test(item)) continue;
      if (this.#flags.isVerbose && item === "#") {
        while (this.#at < this.#items.length && this.#items[this.#at] !== "\n") this.#at++;
        continue;
      }
      if (/^[*+?{]$/.test(item)) {
        const [min, max] = this.#quantifier(item) ?? [null, null];
        if (min === null) parts.push(one(set(literal("{"))));
        else parts.push(this.#repeat(parts.pop(), min, max));
        continue;
      }
      const part = item === "(" ? this.#group(isFirst && parts.length === 0) : this.#single(item);
      if (part !== null) parts.push(part);
    }
    return {
      node: sequence(parts.map(({ node }) => node)),
      least: parts.reduce((sum, { least }) => sum + least, 0),
      most: parts.reduce((sum, { most }) => sum + most, 0),
      kind: "item",
    };
  }

  /** The bounds of a quantifier; `null` for a brace that is a character. */
  #quantifier(item: string): readonly [min: number, max: number] | null {
    if (item === "?") return [0, 1];
    if (item === "*") return [0, Infinity];
    if (item === "+") return [1, Infinity];
    if (this.#items[this.#at] === "}") return null;
    const before = this.#at;
    const low = this.#digits();
    const high = this.#take(",") ? this.#digits() : low;
    if (!this.#take("}")) {
      this.#at = before;
      return null;
    }
    const bound = (text: string, none: number): number => {
      if (text === "") return none;
      if (BigInt(text) < BigInt(noLimit)) return Number(text);
      throw new PythonError("OverflowError", "the repetition number is too large");
    };
    const [min, max] = [bound(low, 0), bound(high, Infinity)];
    if (max < min) throw new PatternSyntaxError("min repeat greater than max repeat");
    return [min, max];
  }

  #digits(): string {
    let digits = "";
    while (/^[0-9]$/.test(this.#items[this.#at] ?? "")) digits += this.#items[this.#at++]!;
    return digits;
  }

  #repeat(part: Part | undefined, min: number, max: number): Part {
    if (part === undefined || part.kind === "edge") throw new PatternSyntaxError("nothing to repeat");
    if (part.kind === "repeat") throw new PatternSyntaxError("multiple repeat");
    const isLazy = this.#take("?");
    if (!isLazy && this.#take("+")) this.#unsupported ??= "it has a possessive repetition";
    return {
      node: { type: "repeat", body: part.node, min, max, isLazy },
      least: part.least * min,
      most: part.most === 0 ? 0 : part.most * max,
      kind: "repeat",
    };
  }

  #single(item: string): Part {
    const { isMultiline, isDotAll } = this.#flags;
    if (item === ".") return one(set(isDotAll ? "[^]" : "[^\\n]"));
    if (item === "[") return one(set(this.#class()));
    if (item === "^") {
      return edge(isMultiline ? { type: "choice", options: [start, look(false, lineBreak)] } : start);
    }
    if (item === "$") {
      const atBreak: PatternNode = look(true, isMultiline ? lineBreak : sequence([optionalBreak, end]));
      return edge(isMultiline ? { type: "choice", options: [end, atBreak] } : atBreak);
    }
    if (!item.startsWith("\\")) return one(set(literal(item)));
    return this.#escape(item.slice(1));
  }

  #escape(character: string): Part {
    if (character === "A") return edge(start);
    if (character === "Z") return edge(end);
    if (character === "b" || character === "B") return edge(this.#boundary(character === "B"));
    const category = this.#category(character);
    if (category !== null) return one(set(category));
    if (/^[1-9]$/.test(character)) return this.#reference(character);
    return one(set(literal(this.#character(character))));
  }

  /** `\b`, with the letters of all scripts. */
  #boundary(isNegated: boolean): PatternNode {
    const word = set(this.#category("w")!);
    const sides = (before: boolean, after: boolean): PatternNode =>
      sequence([look(false, word, !before), look(true, word, !after)]);
    return { type: "choice", options: [sides(true, isNegated), sides(false, !isNegated)] };
  }

  /** `\d` and the like in pattern notation; `null` for another character. */
  #category(character: string): string | null {
    const known: Readonly<Record<string, string>> = classes[this.#flags.isAscii ? "ascii" : "unicode"];
    const inside = known[character.toLowerCase()];
    if (inside === undefined) return null;
    return character === character.toLowerCase() ? `[${inside}]` : `[^${inside}]`;
  }

  /** A number after a backslash: a character in octal, or a group. */
  #reference(first: string): Part {
    const next = (): string => this.#items[this.#at] ?? "";
    let digits = first;
    if (/^[0-9]$/.test(next())) {
      digits += this.#items[this.#at++]!;
      if (/^[0-7]{2}$/.test(digits) && /^[0-7]$/.test(next())) {
        const value = parseInt(digits + this.#items[this.#at++]!, 8);
        if (value > 0o377) throw new PatternSyntaxError("octal escape value outside of range 0-0o377");
        return one(set(literal(String.fromCodePoint(value))));
      }
    }
    return this.#backReference(Number(digits));
  }

  #backReference(number: number): Part {
    const group = number <= this.#groups.length ? this.#groups[number - 1] : undefined;
    if (group === undefined) throw new PatternSyntaxError(`invalid group reference ${number}`);
    if (group === null) throw new PatternSyntaxError("cannot refer to an open group");
    this.#unsupported ??= "it refers back to a group";
    return { node: sequence([]), ...group, kind: "item" };
  }

  /** A character after a backslash, outside and inside of classes. */
  #character(character: string): string {
    const hex = { x: 2, u: 4, U: 8 }[character];
    if (hex !== undefined) {
      const digits = this.#while(/^[0-9a-fA-F]$/, hex);
      const value = parseInt(digits, 16);
      if (value > 0x7fffffff) throw new PythonError("OverflowError", "Python int too large to convert to C int");
      if (digits.length < hex || value > 0x10ffff) throw new PatternSyntaxError("incomplete escape");
      return String.fromCodePoint(value);
    }
    if (character === "0") return String.fromCodePoint(parseInt(`0${this.#while(/^[0-7]$/, 2)}`, 8));
    if (character === "N" && this.#items[this.#at] === "{") this.#unsupported ??= "it names a character";
    else if (/^[A-Za-z]$/.test(character) && escapes[character] === undefined) {
      throw new PatternSyntaxError(`bad escape \\${character}`);
    }
    return escapes[character] ?? character;
  }

  #while(pattern: RegExp, most: number): string {
    let taken = "";
    while (taken.length < most && pattern.test(this.#items[this.#at] ?? "")) taken += this.#items[this.#at++]!;
    return taken;
  }

  /** A class after its bracket, in pattern notation. */
  #class(): string {
    const isNegated = this.#take("^");
    const inside: string[] = [];
    const outside: string[] = [];
    const unterminated = (): PatternSyntaxError => new PatternSyntaxError("unterminated character set");
    const next = (): string => {
      const item = this.#items[this.#at++];
      if (item === undefined) throw unterminated();
      return item;
    };
    /** A character, or a category. */
    const member = (item: string): string | { readonly category: string } => {
      if (!item.startsWith("\\")) return item;
      const character = item.slice(1);
      const category = this.#category(character);
      if (category !== null) return { category };
      if (character === "b") return "\b";
      if (/^[89]$/.test(character)) throw new PatternSyntaxError(`bad escape \\${character}`);
      if (!/^[0-7]$/.test(character)) return this.#character(character);
      const value = parseInt(character + this.#while(/^[0-7]$/, 2), 8);
      if (value > 0o377) throw new PatternSyntaxError("octal escape value outside of range 0-0o377");
      return String.fromCodePoint(value);
    };
    const add = (one: string | { readonly category: string }): void => {
      if (typeof one === "string") inside.push(literal(one));
      else outside.push(one.category);
    };
    for (let item = next(); item !== "]" || inside.length + outside.length === 0; item = next()) {
      const from = member(item);
      if (!this.#take("-")) {
        add(from);
        continue;
      }
      const last = next();
      if (last === "]") {
        add(from);
        add("-");
        break;
      }
      const to = member(last);
      if (typeof from !== "string" || typeof to !== "string" || from.codePointAt(0)! > to.codePointAt(0)!) {
        throw new PatternSyntaxError("bad character range");
      }
      inside.push(`${literal(from)}-${literal(to)}`);
    }
    const own = inside.length === 0 ? [] : [`[${inside.join("")}]`];
    if (outside.length === 0) return `[${isNegated ? "^" : ""}${inside.join("")}]`;
    const either = `(?:${[...own, ...outside].join("|")})`;
    return isNegated ? `(?:(?!${either})[^])` : either;
  }

  /** A group after its parenthesis; `null` for a comment or flags. */
  #group(mayHaveFlags: boolean): Part | null {
    if (!this.#take("?")) return this.#body({ captures: true });
    const kind = this.#items[this.#at++];
    switch (kind) {
      case undefined:
        throw new PatternSyntaxError("unexpected end of pattern");
      case "P":
        return this.#named();
      case ":":
        return this.#body({ captures: false });
      case "#":
        while (this.#items[this.#at] !== ")") {
          if (this.#at++ >= this.#items.length) throw new PatternSyntaxError("missing ), unterminated comment");
        }
        this.#at++;
        return null;
      case "=":
      case "!":
        return this.#look(kind, true);
      case "<": {
        const direction = this.#items[this.#at++];
        if (direction === "=" || direction === "!") return this.#look(direction, false);
        throw new PatternSyntaxError("unknown extension");
      }
      case "(":
        return this.#conditional();
      case ">":
        this.#unsupported ??= "it has an atomic group";
        return this.#body({ captures: false });
      default:
        if (!/^[aiLmsux-]$/.test(kind)) throw new PatternSyntaxError("unknown extension");
        return this.#flagged(kind, mayHaveFlags);
    }
  }

  #named(): Part {
    if (this.#take("<")) {
      const name = this.#until(">");
      if (this.#names.has(name)) throw new PatternSyntaxError("redefinition of group name");
      this.#names.set(name, this.#groups.length + 1);
      return this.#body({ captures: true });
    }
    if (!this.#take("=")) throw new PatternSyntaxError("unknown extension");
    const number = this.#names.get(this.#until(")"));
    if (number === undefined) throw new PatternSyntaxError("unknown group name");
    return this.#backReference(number);
  }

  /** The name of a group up to its end. */
  #until(mark: string): string {
    let name = "";
    for (let item = this.#items[this.#at++]; item !== mark; item = this.#items[this.#at++]) {
      if (item === undefined) throw new PatternSyntaxError("unterminated name");
      name += item;
    }
    if (/^[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{M}\p{Nd}\p{Pc}]*$/u.test(name)) return name;
    throw new PatternSyntaxError("bad character in group name");
  }

  #body({ captures, flags }: { readonly captures: boolean; readonly flags?: Flags }): Part {
    const number = captures ? this.#groups.push(null) : null;
    const before = this.#flags;
    this.#flags = flags ?? before;
    const part = this.#choice();
    this.#flags = before;
    if (!this.#take(")")) throw new PatternSyntaxError("missing ), unterminated subpattern");
    if (number !== null) this.#groups[number - 1] = part;
    return { ...part, kind: "item" };
  }

  #look(kind: "=" | "!", isAhead: boolean): Part {
    const part = this.#body({ captures: false });
    if (!isAhead && part.least !== part.most) {
      throw new PatternSyntaxError("look-behind requires fixed-width pattern");
    }
    return { node: look(isAhead, part.node, kind === "!"), least: 0, most: 0, kind: "item" };
  }

  /** `(?(name)yes|no)`, which is only checked. */
  #conditional(): Part {
    const name = this.#conditionName();
    const number = /^[0-9]+$/.test(name) ? Number(name) : this.#names.get(name);
    if (number === undefined || number === 0) throw new PatternSyntaxError("unknown group name");
    this.#condition = Math.max(this.#condition, number);
    this.#unsupported ??= "it depends on a group";
    const yes = this.#sequence(false);
    const no = this.#take("|") ? this.#sequence(false) : null;
    if (this.#items[this.#at] === "|") throw new PatternSyntaxError("conditional backref with more than two branches");
    if (!this.#take(")")) throw new PatternSyntaxError("missing ), unterminated subpattern");
    const least = Math.min(yes.least, no?.least ?? 0);
    return { node: sequence([]), least, most: Math.max(yes.most, no?.most ?? 0), kind: "item" };
  }

  #conditionName(): string {
    let name = "";
    for (let item = this.#items[this.#at++]; item !== ")"; item = this.#items[this.#at++]) {
      if (item === undefined) throw new PatternSyntaxError("missing ), unterminated name");
      name += item;
    }
    return name;
  }

  #flagged(first: string, mayBeGlobal: boolean): Part | null {
    let [added, removed, item] = ["", "", first as string | undefined];
    const bad = (): PatternSyntaxError => new PatternSyntaxError("bad inline flags");
    for (; item !== undefined && item !== "-" && item !== ":" && item !== ")"; item = this.#items[this.#at++]) {
      if (!/^[aimsux]$/.test(item)) throw bad();
      added += item;
    }
    if (item === undefined || (added.includes("a") && added.includes("u"))) throw bad();
    if (item === ")") return this.#setGlobal(added, mayBeGlobal);
    if (item === "-") {
      for (item = this.#items[this.#at++]; item !== ":"; item = this.#items[this.#at++]) {
        if (item === undefined || !/^[imsx]$/.test(item)) throw bad();
        removed += item;
      }
      if (removed === "") throw bad();
    }
    if (removed.split("").some((flag) => added.includes(flag))) throw bad();
    if (removed.includes("i")) this.#unsupported ??= "a part of it does not ignore case";
    const flags = withFlags(withFlags(this.#flags, added, true), removed, false);
    return this.#body({ captures: false, flags });
  }

  #setGlobal(added: string, mayBeGlobal: boolean): null {
    if (!mayBeGlobal) throw new PatternSyntaxError("global flags not at the start of the expression");
    if (added.includes("x") && !this.#initial.isVerbose) throw new VerboseSignal();
    this.#typeFlags += added;
    this.#flags = withFlags(this.#flags, added, true);
    return null;
  }

  #take(item: string): boolean {
    if (this.#items[this.#at] !== item) return false;
    this.#at++;
    return true;
  }
}

function withFlags(flags: Flags, names: string, value: boolean): Flags {
  const has = (name: string): boolean => names.includes(name);
  return {
    isAscii: has("a") ? value : has("u") ? !value : flags.isAscii,
    isMultiline: has("m") ? value : flags.isMultiline,
    isDotAll: has("s") ? value : flags.isDotAll,
    isVerbose: has("x") ? value : flags.isVerbose,
  };
}

const one = (node: PatternNode): Part => ({ node, least: 1, most: 1, kind: "item" });
const edge = (node: PatternNode): Part => ({ node, least: 0, most: 0, kind: "edge" });
