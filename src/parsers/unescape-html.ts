// Python's `html.unescape`: HTML5's rules for character references, unterminated ones included. Names are those of the package
// `entities`; numbers are read here, because Python drops the invalid ones and refuses decimals of more than 4,300 digits.

import { decodeHTML } from "entities/decode";

import { pythonInt } from "../python-semantics/index.ts";

/** Code points that HTML reads as others (those of Windows-1252, mostly). */
const replaced: ReadonlyMap<number, string> = new Map([
  [0x00, "\ufffd"],
  [0x0d, "\r"],
  ...Array.from(
    "\u20ac\x81\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\x8d\u017d\x8f" +
      "\x90\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\x9d\u017e\u0178",
    (character, index): [number, string] => [0x80 + index, character],
  ),
]);

/** A number in either base, or a name; the semicolon may be missing. */
const reference = /&(?:#(?:(?<decimal>[0-9]+)|[xX](?<hex>[0-9a-fA-F]+));?|(?<name>[^\t\n\f <&#;]{1,32};?))/gu;

export function unescapeHtml(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(reference, (whole, decimal?: string, hex?: string, name?: string) => {
    if (name !== undefined) return decodeHTML(whole);
    return numberedCharacter(hex === undefined ? Number(pythonInt(decimal!)) : parseInt(hex, 16));
  });
}

function numberedCharacter(code: number): string {
  const isSurrogate = code >= 0xd800 && code <= 0xdfff;
  if (isSurrogate || code > 0x10ffff) return "\ufffd";
  return replaced.get(code) ?? (isInvalid(code) ? "" : String.fromCodePoint(code));
}

/** Control characters and noncharacters, which disappear. */
function isInvalid(code: number): boolean {
  if (code < 0x20) return code !== 0x09 && code !== 0x0a && code !== 0x0c;
  if (code >= 0x7f && code <= 0x9f) return true;
  return (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) === 0xfffe;
}
