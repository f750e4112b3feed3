// Python's `json.dumps`, byte for byte. Observations, prompts and rows that a Python program would have written are made
// here, never by `JSON.stringify`.

import { floatRepr } from "../float-repr.ts";
import { JsonFloat, type JsonValue } from "./value.ts";

export type DumpJsonOptions = {
  /** Write everything outside 0x20..0x7e as `\uXXXX`. Default false (Python's own default is true). */
  readonly ensureAscii?: boolean;
  /** Spaces per level; with it each item stands on its own line. Default: one line. */
  readonly indent?: number;
  /** Between items, and between key and value. Default `", "` and `": "`; with `indent` `","` and `": "`. */
  readonly separators?: readonly [item: string, key: string];
};

type Style = {
  readonly quote: (text: string) => string;
  readonly indent: number | null;
  readonly item: string;
  readonly key: string;
};

/** Writes a value as one JSON text. Non-finite floats come out bare (`NaN`, `Infinity`), as Python writes them. */
export function dumpJson(value: JsonValue, options: DumpJsonOptions = {}): string {
  const indent = options.indent ?? null;
  const [item, key] = options.separators ?? [indent === null ? ", " : ",", ": "];
  const quote = options.ensureAscii === true ? quoteAscii : quoteUnicode;
  return write(value, { quote, indent, item, key }, "\n");
}

function write(value: JsonValue, style: Style, lineBreak: string): string {
  if (typeof value === "string") return style.quote(value);
  if (value === null) return "null";
  if (value instanceof JsonFloat) return jsonFloatText(value.value);
  if (typeof value !== "object") return String(value);
  const inner = style.indent === null ? "" : lineBreak + " ".repeat(style.indent);
  const parts: string[] = [];
  if (Array.isArray(value)) {
    for (const element of value) parts.push(write(element, style, inner));
  } else {
    for (const [key, element] of value) parts.push(style.quote(key) + style.key + write(element, style, inner));
  }
  const [opening, closing] = Array.isArray(value) ? "[]" : "{}";
  if (parts.length === 0) return `${opening}${closing}`;
  return opening + inner + parts.join(style.item + inner) + (style.indent === null ? "" : lineBreak) + closing;
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
