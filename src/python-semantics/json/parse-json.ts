// Python's `json.loads`, without loss: integers and floats are distinct, objects keep their order,
// NaN and Infinity are accepted. `JSON.parse` would not do: this parser also rejects the same texts
// as Python (a lone surrogate escape is valid, a raw control character is not). One pass, without
// regular expressions; nesting is bounded, so hostile text cannot overflow the stack.

import { maxIntegerDigits, tooManyDigits } from "../number-text.ts";
import { decodeError, JsonSyntaxError } from "../errors.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "./value.ts";

/**
 * Maximum accepted nesting. CPython fails near 1,000 minus the depth of its caller, which is
 * typically 5 to 20.
 */
export const maxJsonDepth = 980;

// One shared object for each, as in Python, where lists that contain the same NaN are equal.
const notANumber = new JsonFloat(NaN);
const positiveInfinity = new JsonFloat(Infinity);
const negativeInfinity = new JsonFloat(-Infinity);

/**
 * Parses one JSON text. A duplicate key keeps its first position and its last value. Throws a
 * {@link JsonSyntaxError} exactly for the texts that Python rejects.
 */
export function parseJson(text: string): JsonValue {
  return new JsonReader(text).readDocument();
}

/**
 * The value at the beginning of a text, or the error. `open` are the positions of the unfinished
 * objects and lists at the error, outermost first.
 */
export type JsonPrefix =
  | { readonly type: "value"; readonly value: JsonValue; readonly end: number }
  | { readonly type: "error"; readonly error: JsonSyntaxError; readonly open: readonly number[] };

/**
 * Python's `JSONDecoder.raw_decode`: the JSON value that begins exactly at `start`, followed by any
 * text. White space at `start` is an error. Offsets of errors count from the beginning of the text;
 * their messages contain no location.
 */
export function parseJsonPrefix(text: string, start: number): JsonPrefix {
  return new JsonReader(text, start).readPrefix();
}

class JsonReader {
  readonly #text: string;
  #at: number;
  /** Start positions of the objects and lists being parsed. */
  readonly #open: number[] = [];
  /**
   * True if errors name a line and column. That reads all preceding text, which is too slow if one
   * text is parsed many times.
   */
  readonly #namesPlaces: boolean;
  /** Keys repeat in every record; sharing them saves memory and rehashing. */
  readonly #keys = new Map<string, string>();

  constructor(text: string, start: number | null = null) {
    this.#text = text;
    this.#at = start ?? 0;
    this.#namesPlaces = start === null;
  }

  readPrefix(): JsonPrefix {
    try {
      const value = this.#readValue();
      return { type: "value", value, end: this.#at };
    } catch (error) {
      if (!(error instanceof JsonSyntaxError)) throw error;
      return { type: "error", error, open: this.#open };
    }
  }

  readDocument(): JsonValue {
    if (this.#text.charCodeAt(0) === 0xfeff) throw this.#error("Unexpected UTF-8 BOM (decode using utf-8-sig)", 0);
    this.#skipSpace();
    const value = this.#readValue();
    this.#skipSpace();
    if (this.#at < this.#text.length) throw this.#error("Extra data", this.#at);
    return value;
  }

  #readValue(): JsonValue {
    const start = this.#at;
    switch (this.#text.charCodeAt(start)) {
      case 0x22:
        return this.#readString();
      case 0x7b:
        return this.#readObject();
      case 0x5b:
        return this.#readArray();
      case 0x6e:
        return this.#readWord("null", null);
      case 0x74:
        return this.#readWord("true", true);
      case 0x66:
        return this.#readWord("false", false);
      case 0x4e:
        return this.#readWord("NaN", notANumber);
      case 0x49:
        return this.#readWord("Infinity", positiveInfinity);
      case 0x2d:
        if (this.#text.charCodeAt(start + 1) === 0x49) return this.#readWord("-Infinity", negativeInfinity);
        return this.#readNumber();
      default:
        return this.#readNumber();
    }
  }

  #readWord(word: string, value: JsonValue): JsonValue {
    if (!this.#text.startsWith(word, this.#at)) throw this.#error("Expecting value", this.#at);
    this.#at += word.length;
    return value;
  }

  #readObject(): JsonObject {
    const object: JsonObject = new Map();
    if (this.#opens("object", 0x7d)) return object;
    do {
      if (this.#text.charCodeAt(this.#at) !== 0x22) {
        throw this.#error("Expecting property name enclosed in double quotes", this.#at);
      }
      const key = this.#shareKey(this.#readString());
      this.#skipSpace();
      if (this.#text.charCodeAt(this.#at) !== 0x3a) throw this.#error("Expecting ':' delimiter", this.#at);
      this.#at++;
      this.#skipSpace();
      object.set(key, this.#readValue());
    } while (!this.#closes(0x7d));
    return object;
  }

  #readArray(): JsonValue[] {
    const array: JsonValue[] = [];
    if (this.#opens("array", 0x5d)) return array;
    do array.push(this.#readValue());
    while (!this.#closes(0x5d));
    return array;
  }

  /** Consumes the opening bracket; true if the closing one follows, which is consumed too. */
  #opens(kind: "object" | "array", closing: number): boolean {
    if (this.#open.push(this.#at) > maxJsonDepth) {
      const message = `maximum recursion depth exceeded while decoding a JSON ${kind} from a unicode string`;
      throw new JsonSyntaxError("RecursionError", message, this.#at);
    }
    this.#at++;
    this.#skipSpace();
    if (this.#text.charCodeAt(this.#at) !== closing) return false;
    this.#leave();
    return true;
  }

  /**
   * Consumes the separator after an item: a comma, or the closing bracket, in which case it returns
   * true.
   */
  #closes(closing: number): boolean {
    this.#skipSpace();
    const code = this.#text.charCodeAt(this.#at);
    if (code === closing) {
      this.#leave();
      return true;
    }
    if (code !== 0x2c) throw this.#error("Expecting ',' delimiter", this.#at);
    this.#at++;
    this.#skipSpace();
    return false;
  }

  #leave(): void {
    this.#open.pop();
    this.#at++;
  }

  #readString(): string {
    const text = this.#text;
    const opening = this.#at;
    let at = opening + 1;
    let chunkStart = at;
    let joined = "";
    for (;;) {
      const code = text.charCodeAt(at);
      if (code === 0x22) {
        this.#at = at + 1;
        return joined === "" ? text.slice(chunkStart, at) : joined + text.slice(chunkStart, at);
      }
      if (code === 0x5c) {
        joined += text.slice(chunkStart, at);
        this.#at = at;
        joined += this.#readEscape(opening);
        at = this.#at;
        chunkStart = at;
      } else if (code >= 0x20) {
        at++;
      } else if (code !== code) {
        // NaN means the end of the text.
        throw this.#error("Unterminated string starting at", opening);
      } else {
        throw this.#error("Invalid control character at", at);
      }
    }
  }

  #readEscape(opening: number): string {
    const at = this.#at;
    const code = this.#text.charCodeAt(at + 1);
    if (code !== code) throw this.#error("Unterminated string starting at", opening);
    if (code === 0x75) {
      const unit = this.#hexUnit(at + 2);
      if (unit < 0) throw this.#error("Invalid \\uXXXX escape", at + 1);
      this.#at = at + 6;
      return String.fromCharCode(unit);
    }
    const escaped = escapes[String.fromCharCode(code)];
    if (escaped === undefined) throw this.#error("Invalid \\escape", at);
    this.#at = at + 2;
    return escaped;
  }

  #hexUnit(start: number): number {
    let unit = 0;
    for (let index = start; index < start + 4; index++) {
      const code = this.#text.charCodeAt(index);
      const lower = code | 0x20;
      if (code >= 0x30 && code <= 0x39) unit = unit * 16 + code - 0x30;
      else if (lower >= 0x61 && lower <= 0x66) unit = unit * 16 + lower - 0x57;
      else return -1;
    }
    return unit;
  }

  #readNumber(): JsonValue {
    const text = this.#text;
    const start = this.#at;
    let at = start;
    if (text.charCodeAt(at) === 0x2d) at++;
    const first = text.charCodeAt(at);
    if (!(first >= 0x30 && first <= 0x39)) throw this.#error("Expecting value", start);
    const digitsStart = at;
    at = first === 0x30 ? at + 1 : skipDigits(text, at);
    const digitsEnd = at;
    let isFloat = false;
    if (text.charCodeAt(at) === 0x2e) {
      const end = skipDigits(text, at + 1);
      if (end > at + 1) {
        isFloat = true;
        at = end;
      }
    }
    if ((text.charCodeAt(at) | 0x20) === 0x65) {
      const sign = text.charCodeAt(at + 1);
      const digits = sign === 0x2b || sign === 0x2d ? at + 2 : at + 1;
      const end = skipDigits(text, digits);
      if (end > digits) {
        isFloat = true;
        at = end;
      }
    }
    this.#at = at;
    const literal = text.slice(start, at);
    if (isFloat) return new JsonFloat(Number(literal));
    const digits = digitsEnd - digitsStart;
    if (digits > maxIntegerDigits) throw new JsonSyntaxError("ValueError", tooManyDigits(digits), start);
    const integer = Number(literal);
    // Adding zero turns -0 into 0, because Python integers have only one zero.
    return Number.isSafeInteger(integer) ? integer + 0 : BigInt(literal);
  }

  #shareKey(key: string): string {
    const shared = this.#keys.get(key);
    if (shared !== undefined) return shared;
    this.#keys.set(key, key);
    return key;
  }

  #skipSpace(): void {
    let at = this.#at;
    let code = this.#text.charCodeAt(at);
    while (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) code = this.#text.charCodeAt(++at);
    this.#at = at;
  }

  #error(reason: string, offset: number): JsonSyntaxError {
    if (!this.#namesPlaces) return new JsonSyntaxError("JSONDecodeError", reason, offset);
    return decodeError(reason, this.#text, offset);
  }
}

const escapes: Readonly<Record<string, string>> = Object.assign(Object.create(null) as Record<string, string>, {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
});

function skipDigits(text: string, at: number): number {
  let code = text.charCodeAt(at);
  while (code >= 0x30 && code <= 0x39) code = text.charCodeAt(++at);
  return at;
}
