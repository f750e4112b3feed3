// Python's `json.dumps`, byte for byte. Observations, prompts and rows that a Python program would
// have written are serialized here, never by `JSON.stringify`.

import { PythonError, typeError } from "../errors.ts";
import { spend } from "../limits.ts";
import { floatRepr } from "../number-text.ts";
import { compareCodePoints } from "../strings.ts";
import { isList, PythonDict, PythonList, PythonTuple, type PythonValue, textIn } from "../values.ts";
import { maxJsonDepth } from "./parse-json.ts";
import { JsonFloat, pythonTypeName } from "./value.ts";

export type DumpJsonOptions = {
  /**
   * Escapes all characters outside 0x20..0x7e as `\uXXXX`. Default false (Python's own default is
   * true).
   */
  readonly ensureAscii?: boolean;
  /** Number of spaces per level; with it, each item is on its own line. Default: one line. */
  readonly indent?: number;
  /**
   * Separators between items, and between key and value. Default `", "` and `": "`; with `indent`
   * `","` and `": "`.
   */
  readonly separators?: readonly [item: string, key: string];
  /** Sorts keys by code point. Default false: the original order. */
  readonly sortKeys?: boolean;
};

/**
 * Writes a value as one JSON text. Non-finite floats are written bare (`NaN`, `Infinity`), as in
 * Python. Tuples become lists, keys become strings. Throws a `PythonError`: "TypeError" for values
 * that JSON cannot represent, "RecursionError" for nesting deeper than `parseJson` accepts.
 */
export function dumpJson(value: PythonValue, options: DumpJsonOptions = {}): string {
  return new Writer(options).write(value, "\n");
}

class Writer {
  readonly #quote: (text: string) => string;
  readonly #indent: number | null;
  readonly #comma: string;
  readonly #colon: string;
  readonly #sortKeys: boolean;
  #depth = 0;

  constructor({ ensureAscii = false, indent, separators, sortKeys = false }: DumpJsonOptions) {
    this.#quote = ensureAscii ? quoteAscii : quoteUnicode;
    this.#indent = indent ?? null;
    [this.#comma, this.#colon] = separators ?? [indent === undefined ? ", " : ",", ": "];
    this.#sortKeys = sortKeys;
  }

  write(value: PythonValue, lineBreak: string): string {
    if (typeof value === "string") return this.#quote(value);
    if (value === null) return "null";
    if (typeof value !== "object") return String(value);
    if (value instanceof JsonFloat) return jsonFloatText(value.value);
    if (isList(value)) return this.#writeItems(value, lineBreak);
    if (value instanceof Map) {
      return value.size === 0 ? "{}" : this.#writeEntries(value as ReadonlyMap<string, PythonValue>, lineBreak);
    }
    spend(1);
    if ((value instanceof PythonList || value instanceof PythonDict) && value.json !== null) {
      return this.write(value.json, lineBreak);
    }
    if (value instanceof PythonList || value instanceof PythonTuple) return this.#writeItems(value.items(), lineBreak);
    const text = textIn(value);
    if (text !== null) return this.#quote(text);
    if (!(value instanceof PythonDict)) {
      throw typeError(`Object of type ${pythonTypeName(value)} is not JSON serializable`);
    }
    const pairs = Array.from(value.entries.values(), (entry) => [this.#keyText(entry.key), entry.value] as const);
    return this.#writeEntries(pairs, lineBreak);
  }

  #writeItems(items: readonly PythonValue[], lineBreak: string): string {
    if (items.length === 0) return "[]";
    const inner = this.#enter(lineBreak);
    const parts = items.map((item) => this.write(item, inner));
    return this.#leave("[]", parts, [inner, lineBreak]);
  }

  #writeEntries(entries: Iterable<readonly [string, PythonValue]>, lineBreak: string): string {
    const inner = this.#enter(lineBreak);
    const parts: string[] = [];
    for (const [key, value] of this.#sortKeys ? sorted(entries) : entries) {
      parts.push(this.#quote(key) + this.#colon + this.write(value, inner));
    }
    return this.#leave("{}", parts, [inner, lineBreak]);
  }

  #enter(lineBreak: string): string {
    if (++this.#depth > maxJsonDepth + 1) {
      throw new PythonError("RecursionError", "maximum recursion depth exceeded while encoding a JSON object");
    }
    return this.#indent === null ? "" : lineBreak + " ".repeat(this.#indent);
  }

  #leave(brackets: string, parts: readonly string[], [inner, outer]: readonly [string, string]): string {
    this.#depth--;
    if (parts.length === 0) return brackets;
    const end = this.#indent === null ? "" : outer;
    return brackets[0] + inner + parts.join(this.#comma + inner) + end + brackets[1];
  }

  #keyText(key: PythonValue): string {
    const text = textIn(key);
    if (text !== null) return text;
    if (this.#sortKeys) throw typeError("'<' not supported between keys of different types");
    if (key !== null && typeof key === "object" && !(key instanceof JsonFloat)) {
      throw typeError(`keys must be str, int, float, bool or None, not ${pythonTypeName(key)}`);
    }
    return key instanceof JsonFloat ? jsonFloatText(key.value) : String(key);
  }
}

function sorted<T>(entries: Iterable<readonly [string, T]>): (readonly [string, T])[] {
  return [...entries].sort(([left], [right]) => compareCodePoints(left, right));
}

function jsonFloatText(value: number): string {
  if (value !== value) return "NaN";
  if (value === Infinity) return "Infinity";
  if (value === -Infinity) return "-Infinity";
  return floatRepr(value);
}

const quoting =
  (special: RegExp, specials: RegExp) =>
  (text: string): string =>
    special.test(text) ? `"${text.replace(specials, escapeUnit)}"` : `"${text}"`;

// oxlint-disable-next-line no-control-regex
const quoteUnicode = quoting(/[\u0000-\u001f"\\]/, /[\u0000-\u001f"\\]/g);
const quoteAscii = quoting(/[^ !#-[\]-~]/, /[^ !#-[\]-~]/g);

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
