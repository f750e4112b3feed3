// The constants of a Python module that are strings, read without running it. Not an interpreter:
// anything except a string literal, or a dict of string literals, is skipped.

import { PythonError } from "../../python-semantics/index.ts";
import { unescapeString } from "../../python-semantics/tokens.ts";

/**
 * Strings by the names that the module's top level gives them; `NAME.key` for those of a dict.
 * Adjacent literals are one string. If a name is assigned twice, the first assignment counts. Never
 * throws.
 */
export function pythonStrings(source: string): ReadonlyMap<string, string> {
  const strings = new Map<string, string>();
  const keep = (name: string, text: string): void => void (strings.has(name) || strings.set(name, text));
  const assignment = /^([A-Za-z_]\w*)[ \t]*(?::[^=\n]*)?=(?!=)[ \t]*/gm;
  for (let match = assignment.exec(source); match !== null; match = assignment.exec(source)) {
    const name = match[1]!;
    const value = new Reader(source, assignment.lastIndex);
    const entries = value.readDict();
    if (entries !== null) for (const [key, text] of entries) keep(`${name}.${key}`, text);
    else {
      const text = value.readString();
      if (text !== null) keep(name, text);
    }
    assignment.lastIndex = Math.max(assignment.lastIndex, value.at);
  }
  return strings;
}

class Reader {
  /** Offset of the next character to read. */
  at: number;
  readonly #source: string;

  constructor(source: string, at: number) {
    this.#source = source;
    this.at = at;
  }

  /** Reads adjacent literals, perhaps in parentheses; `null` for anything else. */
  readString(): string | null {
    const isOpen = this.#take(/\(/y) !== null;
    let text: string | null = null;
    for (;;) {
      if (isOpen) this.#skip();
      const literal = this.#readLiteral();
      if (literal === null) break;
      text = (text ?? "") + literal;
      this.#take(/[ \t]*/y);
    }
    // A string that is part of a larger expression is not read.
    if (isOpen ? this.#take(/\)/y) === null : this.#take(/[ \t]*(?=[\r\n#,}]|$)/y) === null) return null;
    return text;
  }

  /** Reads the entries of a dict of strings; `null` for anything else. */
  readDict(): readonly (readonly [string, string])[] | null {
    if (this.#take(/\{/y) === null) return null;
    const entries: [string, string][] = [];
    for (;;) {
      this.#skip();
      if (this.#take(/\}/y) !== null) return entries;
      const key = this.#readLiteral();
      if (key === null) return null;
      if (this.#take(/\s*:\s*/y) === null) return null;
      const text = this.readString();
      if (text === null) return null;
      entries.push([key, text]);
      this.#skip();
      this.#take(/,/y);
    }
  }

  #readLiteral(): string | null {
    const opening = this.#take(/([rRuU]?)('''|"""|'|")/y);
    if (opening === null) return null;
    const [, prefix, quote] = opening;
    const body = this.#take(bodies[quote as keyof typeof bodies]);
    if (body === null) return null;
    const text = body[1]!.replaceAll("\r\n", "\n");
    if (prefix === "r" || prefix === "R") return text;
    try {
      return unescapeString(text, "text");
    } catch (error) {
      if (error instanceof PythonError) return null;
      throw error;
    }
  }

  /** Skips white space and comments. */
  #skip(): void {
    this.#take(/(?:\s|#[^\n]*)*/y);
  }

  #take(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.#source);
    if (match !== null) this.at += match[0].length;
    return match;
  }
}

/** Patterns for the rest of a literal, by its quote. */
const bodies = {
  "'''": /((?:[^\\]|\\[^])*?)'''/y,
  '"""': /((?:[^\\]|\\[^])*?)"""/y,
  "'": /((?:[^\\'\n]|\\[^])*)'/y,
  '"': /((?:[^\\"\n]|\\[^])*)"/y,
} as const;
