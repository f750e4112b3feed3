// The text of one Python string literal, with every prefix and escape; of a format string, text and the names it inserts.
// The parser finds where a literal and its replacements lie; it accepts unterminated strings and knows nothing of values, so
// both are settled here.

import type { SyntaxNode } from "@lezer/common";

import { simpleEscapes } from "../../../../python-semantics/index.ts";
import { childrenOf, problemAt, quote, textOf, type PythonSource } from "./python-source.ts";

/** What a string is made of: text, and names to be replaced by values. */
export type StringPart = string | { readonly name: string; readonly node: SyntaxNode };

/**
 * Reads a node `String` or `FormatString`. Throws a `ConfigurationError` for bytes, for what Python refuses, for `\N{...}`
 * (names need Python's database), for halves of surrogate pairs (no file can hold them) and for a format string that
 * inserts anything but a plain name.
 */
export function readString(source: PythonSource, node: SyntaxNode): StringPart[] {
  const text = textOf(source, node);
  const prefixLength = text.startsWith('"') || text.startsWith("'") ? 0 : quoteIndex(text);
  const prefix = text.slice(0, prefixLength).toLowerCase();
  if (prefix.includes("b")) throw problemAt(source, node, "bytes have no place in the data");
  const quoteCharacter = text[prefixLength] ?? "";
  const isLong = text.startsWith(quoteCharacter.repeat(3), prefixLength);
  const marks = isLong ? quoteCharacter.repeat(3) : quoteCharacter;
  const start = node.from + prefixLength + marks.length;
  const end = node.to - marks.length;
  if (end < start || !text.endsWith(marks) || countBackslashesBefore(source.text, end, start) % 2 === 1) {
    throw problemAt(source, node, "a string is not terminated");
  }
  const decode = (from: number, to: number): string =>
    decodeText(source, from, to, { isRaw: prefix.includes("r"), isFormat: prefix.includes("f") });

  const parts: StringPart[] = [];
  let position = start;
  for (const replacement of childrenOf(node)) {
    if (replacement.name !== "FormatReplacement") continue;
    parts.push(decode(position, replacement.from), readReplacement(source, replacement));
    position = replacement.to;
  }
  parts.push(decode(position, end));
  return parts.filter((part) => part !== "");
}

function quoteIndex(text: string): number {
  let index = 0;
  while (index < text.length && text[index] !== '"' && text[index] !== "'") index++;
  return index;
}

function countBackslashesBefore(text: string, end: number, start: number): number {
  let count = 0;
  while (end - count > start && text[end - count - 1] === "\\") count++;
  return count;
}

function readReplacement(source: PythonSource, node: SyntaxNode): StringPart {
  const [open, name, close, ...rest] = childrenOf(node);
  if (open?.name === "{" && name?.name === "VariableName" && close?.name === "}" && rest.length === 0) {
    return { name: textOf(source, name), node: name };
  }
  throw problemAt(source, node, `a format string inserts more than a plain name (${quote(source, node)})`);
}

type StringKind = { readonly isRaw: boolean; readonly isFormat: boolean };

function decodeText(source: PythonSource, from: number, to: number, kind: StringKind): string {
  const { text } = source;
  let decoded = "";
  let position = from;
  while (position < to) {
    const character = text[position] ?? "";
    if (character === "\\" && !kind.isRaw) {
      const [value, length] = decodeEscape(source, position, to, kind);
      decoded += value;
      position += length;
    } else if (kind.isFormat && (character === "{" || character === "}")) {
      if (position + 1 >= to || text[position + 1] !== character) {
        throw problemAt(source, position, `a single "${character}" stands in a format string`);
      }
      decoded += character;
      position += 2;
    } else {
      decoded += character;
      position += 1;
    }
  }
  return decoded;
}

const hexLengths: ReadonlyMap<string, number> = new Map([
  ["x", 2],
  ["u", 4],
  ["U", 8],
]);

/** What an escape stands for, and how many characters it takes. */
function decodeEscape(source: PythonSource, at: number, to: number, kind: StringKind): readonly [string, number] {
  const { text } = source;
  const mark = text[at + 1] ?? "";
  const simple = simpleEscapes.get(mark);
  if (simple !== undefined) return [simple, 2];
  if (mark === "N") throw problemAt(source, at, "a character is given by its Unicode name");
  // The parser takes this brace for escaped, Python for the start of a replacement.
  if (mark === "{" && kind.isFormat) throw problemAt(source, at, "a backslash stands before a replacement");
  const hexLength = hexLengths.get(mark);
  if (hexLength !== undefined) {
    const digits = text.slice(at + 2, Math.min(at + 2 + hexLength, to));
    const code = readDigits(digits, 16);
    if (digits.length !== hexLength || code === null || code > 0x10ffff) {
      throw problemAt(source, at, `the escape "\\${mark}" needs ${hexLength} hexadecimal digits of a character`);
    }
    if (code >= 0xd800 && code <= 0xdfff) throw problemAt(source, at, "an escape gives half of a surrogate pair");
    return [String.fromCodePoint(code), 2 + hexLength];
  }
  let length = 0;
  while (length < 3 && at + 1 + length < to && readDigits(text[at + 1 + length] ?? "", 8) !== null) length++;
  if (length > 0) {
    return [String.fromCodePoint(Number.parseInt(text.slice(at + 1, at + 1 + length), 8)), 1 + length];
  }
  // Python keeps what it does not know.
  return ["\\", 1];
}

function readDigits(digits: string, radix: number): number | null {
  let value = 0;
  for (const digit of digits) {
    const digitValue = "0123456789abcdef".indexOf(digit.toLowerCase());
    if (digitValue < 0 || digitValue >= radix) return null;
    value = value * radix + digitValue;
  }
  return digits === "" ? null : value;
}
