// Python's `repr` and `str` of JSON values. Error texts, f-strings and data hashes of the references are made of them.

import { JsonFloat, type JsonValue } from "./json/value.ts";
import { floatRepr } from "./float-repr.ts";
import { isPrintable } from "./unprintable.ts";

/** `repr(value)`. */
export function pythonRepr(value: JsonValue): string {
  if (typeof value === "string") return stringRepr(value);
  if (Array.isArray(value)) return `[${value.map(pythonRepr).join(", ")}]`;
  if (!(value instanceof Map)) return scalarText(value);
  let body = "";
  for (const [key, element] of value) {
    body += `${body === "" ? "" : ", "}${stringRepr(key)}: ${pythonRepr(element)}`;
  }
  return `{${body}}`;
}

/** `str(value)`: a string as it is, everything else as `repr` shows it. */
export function pythonStr(value: JsonValue): string {
  return typeof value === "string" ? value : pythonRepr(value);
}

/** `repr` of None, a bool, an int or a float. */
function scalarText(value: null | boolean | number | bigint | JsonFloat): string {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  return value instanceof JsonFloat ? floatRepr(value.value) : String(value);
}

// Quotes, backslashes and everything that may be unprintable.
const special = /[^ !#-&(-[\]-~]/;

/** `repr(str)`: single quotes, unless the text holds one and no double quote. */
export function stringRepr(text: string): string {
  if (!special.test(text)) return `'${text}'`;
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  let body = "";
  for (const character of text) body += characterRepr(character, quote);
  return quote + body + quote;
}

function characterRepr(character: string, quote: string): string {
  if (character === quote || character === "\\") return `\\${character}`;
  if (character === "\n") return "\\n";
  if (character === "\r") return "\\r";
  if (character === "\t") return "\\t";
  const code = character.codePointAt(0)!;
  if (isPrintable(code)) return character;
  if (code <= 0xff) return `\\x${hex(code, 2)}`;
  return code <= 0xffff ? `\\u${hex(code, 4)}` : `\\U${hex(code, 8)}`;
}

function hex(code: number, width: number): string {
  return code.toString(16).padStart(width, "0");
}
