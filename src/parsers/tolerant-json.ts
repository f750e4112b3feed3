// Reads JSON that is nearly right, if a person would read it the same way. Does not guess: a
// truncated string or key, or text with two readings, is not read. Used only by repair mode, never
// by strict reading.

import { type JsonObject, type JsonValue, parseJson } from "../python-semantics/json/index.ts";
import { pythonStrip, unlessRaised } from "../python-semantics/index.ts";

export type TolerantJson = {
  readonly value: JsonValue;
  /** Repairs that were made, each once, phrased to follow "after"; empty for valid JSON. */
  readonly repairs: readonly string[];
};

/** Maximum nesting that is read; calls nest a few levels. */
const maxDepth = 200;

/** Reads the value; `null` if the text is not a near miss. Never throws. */
export function readTolerantJson(text: string): TolerantJson | null {
  const repairs = new Set<string>();
  const value = new TolerantReader(withoutFence(pythonStrip(text), repairs), repairs).readDocument();
  return value === undefined ? null : { value, repairs: [...repairs] };
}

function withoutFence(text: string, repairs: Set<string>): string {
  const opening = /^```[a-zA-Z]*[ \t]*\r?\n?/.exec(text);
  if (opening === null) return text;
  repairs.add("taking off a code fence");
  const end = text.endsWith("```") && text.length >= opening[0].length + 3 ? text.length - 3 : text.length;
  return text.slice(opening[0].length, end);
}

type Closing = "}" | "]";
const other = { "}": "]", "]": "}" } as const;

const pythonWords: ReadonlyMap<string, JsonValue> = new Map<string, JsonValue>([
  ["True", true],
  ["False", false],
  ["None", null],
]);
const scalar = /-?Infinity|[A-Za-z]+|-?[0-9][0-9eE.+-]*/y;

/** Methods return `undefined` for unreadable text. */
class TolerantReader {
  readonly #text: string;
  readonly #repairs: Set<string>;
  /** Number of open brackets of each kind, so that a missing or superfluous bracket is detected. */
  readonly #open = { "}": 0, "]": 0 };
  #at = 0;

  constructor(text: string, repairs: Set<string>) {
    this.#text = text;
    this.#repairs = repairs;
  }

  readDocument(): JsonValue | undefined {
    const value = this.#readValue(0);
    if (value === undefined || this.#peek() === "") return value;
    const rest = this.#text.slice(this.#at);
    if (!/^[\]}\s]+$/.test(rest)) return undefined;
    this.#repairs.add("dropping closing brackets that close nothing");
    return value;
  }

  #readValue(depth: number): JsonValue | undefined {
    if (depth > maxDepth) return undefined;
    const first = this.#peek();
    if (first === "{") return this.#readObject(depth);
    if (first === "[") return this.#readArray(depth);
    if (first === '"' || first === "'") return this.#readString(first);
    return this.#readScalar();
  }

  #readObject(depth: number): JsonObject | undefined {
    const object: JsonObject = new Map();
    this.#opens("}");
    while (!this.#closes("}")) {
      const quote = this.#peek();
      const key = quote === '"' || quote === "'" ? this.#readString(quote) : undefined;
      if (key === undefined || this.#peek() !== ":") return undefined;
      this.#at++;
      const value = this.#readValue(depth + 1);
      if (value === undefined || !this.#separates("}")) return undefined;
      object.set(key, value);
    }
    return object;
  }

  #readArray(depth: number): JsonValue[] | undefined {
    const array: JsonValue[] = [];
    this.#opens("]");
    while (!this.#closes("]")) {
      const value = this.#readValue(depth + 1);
      if (value === undefined || !this.#separates("]")) return undefined;
      array.push(value);
    }
    return array;
  }

  #opens(closing: Closing): void {
    this.#open[closing]++;
    this.#at++;
  }

  /**
   * Takes the closing bracket. The end of the text counts as one, and so does the bracket of the
   * enclosing container.
   */
  #closes(closing: Closing): boolean {
    const next = this.#peek();
    if (next !== closing && !this.#isMissing(closing, next)) return false;
    if (next === closing) this.#at++;
    else this.#repairs.add("closing brackets that were left open");
    this.#open[closing]--;
    return true;
  }

  #isMissing(closing: Closing, next: string): boolean {
    return next === "" || (next === other[closing] && this.#open[other[closing]] > 0);
  }

  /**
   * True if another item, or the closing bracket, may follow; takes the comma, and brackets that
   * close nothing.
   */
  #separates(closing: Closing): boolean {
    while (this.#peek() === other[closing] && this.#open[other[closing]] === 0) {
      this.#repairs.add("dropping closing brackets that close nothing");
      this.#at++;
    }
    const next = this.#peek();
    if (next === closing || this.#isMissing(closing, next)) return true;
    if (next !== ",") return false;
    this.#at++;
    const following = this.#peek();
    if (following === closing || this.#isMissing(closing, following)) this.#repairs.add("dropping a trailing comma");
    return following !== ",";
  }

  #readString(quote: '"' | "'"): string | undefined {
    const text = this.#text;
    const pieces: string[] = [];
    let copied = this.#at + 1;
    const replace = (at: number, length: number, by: string): void => {
      pieces.push(text.slice(copied, at), by);
      copied = at + length;
    };
    let at = copied;
    for (; at < text.length && text[at] !== quote; at++) {
      const unit = text.charCodeAt(at);
      if (unit === 0x5c) {
        if (quote === "'" && text[at + 1] === "'") replace(at, 2, "'");
        at++;
      } else if (unit === 0x22) {
        replace(at, 1, '\\"');
      } else if (unit < 0x20) {
        this.#repairs.add("escaping raw line breaks or control characters in a string");
        replace(at, 1, `\\u${unit.toString(16).padStart(4, "0")}`);
      }
    }
    if (at >= text.length) return undefined;
    if (quote === "'") this.#repairs.add("turning single quotes into double quotes");
    this.#at = at + 1;
    const value = unlessRaised(null, () => parseJson(`"${pieces.join("")}${text.slice(copied, at)}"`));
    return typeof value === "string" ? value : undefined;
  }

  #readScalar(): JsonValue | undefined {
    scalar.lastIndex = this.#at;
    const literal = scalar.exec(this.#text)?.[0];
    if (literal === undefined) return undefined;
    this.#at += literal.length;
    const word = pythonWords.get(literal);
    if (word === undefined) return unlessRaised(null, () => parseJson(literal));
    this.#repairs.add("reading Python's True, False or None");
    return word;
  }

  /** The next nonblank character; "" at the end. */
  #peek(): string {
    while (" \t\r\n".includes(this.#text[this.#at] ?? "x")) this.#at++;
    return this.#text[this.#at] ?? "";
  }
}
