// Python's `json.dumps`, byte for byte. Observations, prompts and rows that a Python program would have written are made
// here, never by `JSON.stringify`.

import { PythonError, typeError } from "../errors.ts";
import { spend } from "../limits.ts";
import { floatRepr } from "../number-text.ts";
import { compareCodePoints } from "../strings.ts";
import { isList, PythonDict, PythonList, PythonTuple, type PythonValue, textIn } from "../values.ts";
import { maxJsonDepth } from "./parse-json.ts";
import { JsonFloat, pythonTypeName } from "./value.ts";

export type DumpJsonOptions = {
  /** Write everything outside 0x20..0x7e as `\uXXXX`. Default false (Python's own default is true). */
  readonly ensureAscii?: boolean;
  /** Spaces per level; with it each item stands on its own line. Default: one line. */
  readonly indent?: number;
  /** Between items, and between key and value. Default `", "` and `": "`; with `indent` `","` and `": "`. */
  readonly separators?: readonly [item: string, key: string];
  /** Keys by code point. Default false: as they come. */
  readonly sortKeys?: boolean;
};

type Style = {
  readonly quote: (text: string) => string;
  readonly indent: number | null;
  readonly item: string;
  readonly key: string;
  readonly sortKeys: boolean;
};

/**
 * Writes a value as one JSON text. Non-finite floats come out bare (`NaN`, `Infinity`), as Python writes them. Tuples are
 * lists, keys become text. Throws a `PythonError`: "TypeError" for what JSON cannot hold, "RecursionError" for what is nested
 * deeper than `parseJson` would read.
 */
export function dumpJson(value: PythonValue, options: DumpJsonOptions = {}): string {
  const indent = options.indent ?? null;
  const [item, key] = options.separators ?? [indent === null ? ", " : ",", ": "];
  const quote = options.ensureAscii === true ? quoteAscii : quoteUnicode;
  return new Writer({ quote, indent, item, key, sortKeys: options.sortKeys === true }).write(value, "\n");
}

class Writer {
  readonly #style: Style;
  #depth = 0;

  constructor(style: Style) {
    this.#style = style;
  }

  write(value: PythonValue, lineBreak: string): string {
    if (typeof value === "string") return this.#style.quote(value);
    if (value === null) return "null";
    if (typeof value !== "object") return String(value);
    if (value instanceof JsonFloat) return jsonFloatText(value.value);
    if (isList(value)) {
      if (value.length === 0) return "[]";
      const inner = this.#enter(lineBreak);
      return this.#leave(
        "[]",
        value.map((element) => this.write(element, inner)),
        [inner, lineBreak],
      );
    }
    if (!(value instanceof Map)) return this.#writeObject(value, lineBreak);
    if (value.size === 0) return "{}";
    const inner = this.#enter(lineBreak);
    const { quote, key: colon, sortKeys } = this.#style;
    const parts: string[] = [];
    const entries: Iterable<readonly [string, PythonValue]> = value as ReadonlyMap<string, PythonValue>;
    for (const [key, element] of sortKeys ? sorted(entries) : entries) {
      parts.push(quote(key) + colon + this.write(element, inner));
    }
    return this.#leave("{}", parts, [inner, lineBreak]);
  }

  #writeObject(value: PythonValue, lineBreak: string): string {
    spend(1);
    if (value instanceof PythonList && value.json !== null) return this.write(value.json, lineBreak);
    if (value instanceof PythonDict && value.json !== null) return this.write(value.json, lineBreak);
    if (value instanceof PythonList || value instanceof PythonTuple) return this.write(value.items(), lineBreak);
    const text = textIn(value);
    if (text !== null) return this.#style.quote(text);
    if (!(value instanceof PythonDict)) {
      throw typeError(`Object of type ${pythonTypeName(value)} is not JSON serializable`);
    }
    let entries = Array.from(value.entries.values(), (entry) => [entry.key, entry.value] as const);
    if (this.#style.sortKeys) {
      const texts = entries.map(([key, element]) => [textIn(key) ?? unsortable(), element] as const);
      entries = sorted(texts);
    }
    const inner = this.#enter(lineBreak);
    const { quote, key: colon } = this.#style;
    const parts = entries.map(([key, element]) => quote(keyText(key)) + colon + this.write(element, inner));
    return this.#leave("{}", parts, [inner, lineBreak]);
  }

  #enter(lineBreak: string): string {
    if (++this.#depth > maxJsonDepth + 1) {
      throw new PythonError("RecursionError", "maximum recursion depth exceeded while encoding a JSON object");
    }
    return this.#style.indent === null ? "" : lineBreak + " ".repeat(this.#style.indent);
  }

  #leave(brackets: string, parts: readonly string[], [inner, outer]: readonly [string, string]): string {
    this.#depth--;
    if (parts.length === 0) return brackets;
    const end = this.#style.indent === null ? "" : outer;
    return brackets[0] + inner + parts.join(this.#style.item + inner) + end + brackets[1];
  }
}

function sorted<T>(entries: Iterable<readonly [string, T]>): (readonly [string, T])[] {
  return [...entries].sort(([left], [right]) => compareCodePoints(left, right));
}

function unsortable(): never {
  throw typeError("'<' not supported between keys of different types");
}

function keyText(key: PythonValue): string {
  const text = textIn(key);
  if (text !== null) return text;
  if (key !== null && typeof key === "object" && !(key instanceof JsonFloat)) {
    throw typeError(`keys must be str, int, float, bool or None, not ${pythonTypeName(key)}`);
  }
  return key instanceof JsonFloat ? jsonFloatText(key.value) : String(key);
}

function jsonFloatText(value: number): string {
  if (value !== value) return "NaN";
  if (value === Infinity) return "Infinity";
  if (value === -Infinity) return "-Infinity";
  return floatRepr(value);
}

// oxlint-disable-next-line no-control-regex
const unicodeSpecial = /[\u0000-\u001f"\\]/;
// oxlint-disable-next-line no-control-regex
const unicodeSpecials = /[\u0000-\u001f"\\]/g;
const asciiSpecial = /[^ !#-[\]-~]/;
const asciiSpecials = /[^ !#-[\]-~]/g;

function quoteUnicode(text: string): string {
  return unicodeSpecial.test(text) ? `"${text.replace(unicodeSpecials, escapeUnit)}"` : `"${text}"`;
}

function quoteAscii(text: string): string {
  return asciiSpecial.test(text) ? `"${text.replace(asciiSpecials, escapeUnit)}"` : `"${text}"`;
}

const shortEscapes: ReadonlyMap<string, string> = new Map([
  ['"', '\\"'],
  ["\\", "\\\\"],
  ["\n", "\\n"],
  ["\r", "\\r"],
  ["\t", "\\t"],
  ["\b", "\\b"],
  ["\f", "\\f"],
]);

function escapeUnit(unit: string): string {
  return shortEscapes.get(unit) ?? `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
