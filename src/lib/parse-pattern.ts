// The structure of a JavaScript regular expression, for code that analyses it: to test a text in
// linear time, or to find texts that make it slow.

/** Groups without a name are their contents. Nodes with `source` are single characters or classes, in pattern notation. */
export type PatternNode =
  | { readonly type: "set"; readonly source: string }
  | { readonly type: "sequence"; readonly parts: readonly PatternNode[] }
  | { readonly type: "choice"; readonly options: readonly PatternNode[] }
  | {
      readonly type: "repeat";
      readonly body: PatternNode;
      readonly min: number;
      readonly max: number;
      readonly isLazy: boolean;
    }
  | { readonly type: "group"; readonly name: string; readonly body: PatternNode }
  | { readonly type: "edge"; readonly edge: "start" | "end" | "word" | "no-word" }
  | { readonly type: "look"; readonly isAhead: boolean; readonly isNegative: boolean; readonly body: PatternNode };

/**
 * Thrown for syntax that `parsePattern` does not support: backreferences, and syntax newer than
 * Node 20.
 */
export class UnreadPatternError extends Error {
  override readonly name = "UnreadPatternError";
}

/** Maximum nesting depth of groups. */
const mostDepth = 200;

/**
 * Parses a pattern that `new RegExp(source, flags)` accepts, without validating it again. Throws an
 * `UnreadPatternError` for backreferences and for groups with flags. Only the flags "u" and "v"
 * matter, with which a surrogate pair is one character.
 */
export function parsePattern(source: string, flags: string): PatternNode {
  return new Reader(source, flags.includes("u") || flags.includes("v")).read();
}

class Reader {
  readonly #source: string;
  readonly #isUnicode: boolean;
  #at = 0;
  #depth = 0;

  constructor(source: string, isUnicode: boolean) {
    this.#source = source;
    this.#isUnicode = isUnicode;
  }

  read(): PatternNode {
    const node = this.#choice();
    if (this.#at < this.#source.length) throw new UnreadPatternError(`it has a stray "${this.#source[this.#at]}"`);
    return node;
  }

  #choice(): PatternNode {
    if (++this.#depth > mostDepth) throw new UnreadPatternError("its groups are nested too deeply");
    const options = [this.#sequence()];
    while (this.#take("|")) options.push(this.#sequence());
    this.#depth--;
    return options.length === 1 ? options[0]! : { type: "choice", options };
  }

  #sequence(): PatternNode {
    const parts: PatternNode[] = [];
    while (this.#at < this.#source.length && !"|)".includes(this.#source[this.#at]!)) {
      parts.push(this.#quantified(this.#term()));
    }
    return parts.length === 1 ? parts[0]! : { type: "sequence", parts };
  }

  #quantified(body: PatternNode): PatternNode {
    const written = this.#match(/(?:[*+?]|\{\d{1,16}(?:,\d{0,16})?\})\??/y);
    if (written === null) return body;
    const isLazy = written.length > 1 && written.endsWith("?");
    const [min = "", max = min] = written.replace(/[{}]|(?<=.)\?$/g, "").split(",");
    if (min === "*") return { type: "repeat", body, min: 0, max: Infinity, isLazy };
    if (min === "+") return { type: "repeat", body, min: 1, max: Infinity, isLazy };
    if (min === "?") return { type: "repeat", body, min: 0, max: 1, isLazy };
    return { type: "repeat", body, min: Number(min), max: max === "" ? Infinity : Number(max), isLazy };
  }

  #term(): PatternNode {
    if (this.#take("^")) return { type: "edge", edge: "start" };
    if (this.#take("$")) return { type: "edge", edge: "end" };
    if (this.#take("\\b")) return { type: "edge", edge: "word" };
    if (this.#take("\\B")) return { type: "edge", edge: "no-word" };
    if (this.#take("(")) return this.#group();
    return { type: "set", source: this.#set() };
  }

  #group(): PatternNode {
    const opening = this.#match(/\?(?:[:=!]|<[=!]|<[^>]*>)/y) ?? "";
    if (opening === "" && this.#source[this.#at] === "?") throw new UnreadPatternError("it has a group with flags");
    const body = this.#choice();
    if (!this.#take(")")) throw new UnreadPatternError("a group does not end");
    if (!/[=!]$/.test(opening)) {
      const name = /^\?<(.*)>$/.exec(opening)?.[1];
      return name === undefined ? body : { type: "group", name, body };
    }
    return { type: "look", isAhead: !opening.startsWith("?<"), isNegative: opening.endsWith("!"), body };
  }

  /** Parses one character or class. */
  #set(): string {
    if (this.#match(/\\(?:[1-9]|k<|c(?![a-zA-Z]))/y) !== null) throw new UnreadPatternError("it refers to a group");
    const escape = this.#isUnicode
      ? /\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|u\{[^}]*\}|u[\da-fA-F]{4}|[pP]\{[^}]*\}|x[\da-fA-F]{2}|c[a-zA-Z]|[^])/uy
      : /\\(?:u[\da-fA-F]{4}|x[\da-fA-F]{2}|c[a-zA-Z]|0[0-7]{0,2}|[^])/y;
    const single = this.#isUnicode ? /[^]/uy : /[^]/y;
    return this.#match(/\[(?:\\[^]|[^\]\\])*\]/y) ?? this.#match(escape) ?? this.#match(single)!;
  }

  #take(text: string): boolean {
    if (!this.#source.startsWith(text, this.#at)) return false;
    this.#at += text.length;
    return true;
  }

  #match(sticky: RegExp): string | null {
    sticky.lastIndex = this.#at;
    const [found = null] = sticky.exec(this.#source) ?? [];
    this.#at += found?.length ?? 0;
    return found;
  }
}
