// "python-call-list" of response templates: a list of calls with keyword arguments, as `[get_weather(city="Paris", days=3)]`. The
// grammar is that of transformers' documentation and deliberately strict.

import { JsonFloat, type JsonValue } from "../../python-semantics/json/index.ts";
import { ResponseParseError } from "./errors.ts";

const name = /[A-Za-z_][A-Za-z0-9_]*(?:[-.][A-Za-z0-9_]+)*/y;
const number = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const quoted = /'((?:[^'\\\n\r]|\\[^])*)'|"((?:[^"\\\n\r]|\\[^])*)"/y;
/** Unpaired surrogates: with the flag "u", a pair is one character and does not match. */
const halfCharacter = /[\ud800-\udfff]/u;
const constants = new Map<string, JsonValue>([
  ["True", true],
  ["true", true],
  ["False", false],
  ["false", false],
  ["None", null],
  ["null", null],
]);
const escapes = new Map(Object.entries({ "\\": "\\", "'": "'", '"': '"', "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" })); // prettier-ignore
/** Maximum nesting of lists and objects. */
const mostDepth = 100;

/** Maps with `name` and `arguments`, one per call. Throws a {@link ResponseParseError}. */
export function readCallList(text: string): JsonValue[] {
  return new CallListReader(text).read();
}

class CallListReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  read(): JsonValue[] {
    this.#expect("[");
    const calls = this.#items("]", () => this.#call());
    this.#skipSpace();
    if (this.#at < this.#text.length) this.#fail('there is more after the closing "]"');
    return calls;
  }

  #call(): JsonValue {
    const called = this.#name("the name of a function");
    this.#expect("(");
    const given = this.#items(")", () => this.#argument());
    return new Map<string, JsonValue>([
      ["name", called],
      ["arguments", this.#unique(given)],
    ]);
  }

  #argument(): [string, JsonValue] {
    const key = this.#name("the name of an argument");
    this.#expect("=");
    return [key, this.#value(0)];
  }

  #value(depth: number): JsonValue {
    this.#skipSpace();
    const next = this.#text[this.#at];
    if (next === "'" || next === '"') return this.#string();
    if (next === "[" || next === "{") {
      if (depth >= mostDepth) this.#fail(`more than ${mostDepth} lists and objects lie within one another`);
      this.#at++;
      if (next === "[") return this.#items("]", () => this.#value(depth + 1));
      return this.#unique(this.#items("}", () => this.#entry(depth + 1)));
    }
    const found = this.#match(number);
    if (found !== null) return this.#number(found);
    const before = this.#at;
    const word = this.#match(name)?.[0] ?? "";
    if (constants.has(word)) return constants.get(word) ?? null;
    this.#at = before;
    return this.#fail("a string, number, list, object, True, False or None is missing");
  }

  #number([written, fraction, exponent]: RegExpExecArray): JsonValue {
    const value = Number(written);
    if (fraction === undefined && exponent === undefined) {
      if (written.length > 17 || !Number.isSafeInteger(value)) this.#fail("an integer is beyond 2^53 - 1");
      return value === 0 ? 0 : value;
    }
    if (!Number.isFinite(value)) this.#fail("a number is too large");
    return new JsonFloat(value);
  }

  #entry(depth: number): [string, JsonValue] {
    this.#skipSpace();
    if (this.#text[this.#at] !== "'" && this.#text[this.#at] !== '"')
      this.#fail("the key of an object is not a string");
    const key = this.#string();
    this.#expect(":");
    return [key, this.#value(depth)];
  }

  #string(): string {
    const found = this.#match(quoted);
    if (found === null) return this.#fail("a string does not end");
    const body = found[1] ?? found[2] ?? "";
    if (halfCharacter.test(body)) this.#fail("a string holds half of a character");
    const text = body.replaceAll(/\\(?:u([0-9a-fA-F]{4})|([^]))/gu, (_, code?: string, escape?: string) => {
      if (code !== undefined) return String.fromCharCode(parseInt(code, 16));
      return escapes.get(escape ?? "") ?? this.#fail(`a string holds "\\${escape}"`);
    });
    if (halfCharacter.test(text)) this.#fail("a string holds half of a character");
    return text;
  }

  #unique(entries: readonly (readonly [string, JsonValue])[]): Map<string, JsonValue> {
    const object = new Map<string, JsonValue>();
    for (const [key, value] of entries) {
      if (object.has(key)) this.#fail(`${JSON.stringify(key)} is given twice`);
      object.set(key, value);
    }
    return object;
  }

  #items<T>(close: string, item: () => T): T[] {
    const items: T[] = [];
    if (this.#take(close)) return items;
    for (;;) {
      items.push(item());
      if (this.#take(close)) return items;
      this.#expect(",");
    }
  }

  #name(what: string): string {
    this.#skipSpace();
    return this.#match(name)?.[0] ?? this.#fail(`${what} is missing`);
  }

  #expect(character: string): void {
    if (!this.#take(character)) this.#fail(`"${character}" is missing`);
  }

  #take(character: string): boolean {
    this.#skipSpace();
    if (this.#text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  #skipSpace(): void {
    this.#match(/[ \t\n\r]*/y);
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    this.#at += found?.[0].length ?? 0;
    return found;
  }

  #fail(what: string): never {
    throw new ResponseParseError(`python-call-list: ${what}, at offset ${this.#at}`);
  }
}
