// Python's `html.unescape`: HTML5's rules for character references, unterminated ones included.

import { htmlEntities } from "./entities.ts";

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

export function unescapeHtml(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(/&(#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[^\t\n\f <&#;]{1,32};?)/gu, (_whole, reference: string) =>
    reference.startsWith("#") ? numericReference(reference.slice(1)) : namedReference(reference),
  );
}

function numericReference(reference: string): string {
  const digits = reference.replace(/;$/, "");
  const isHex = /^[xX]/.test(digits);
  const code = isHex ? parseInt(digits.slice(1), 16) : parseInt(digits, 10);
  const known = replaced.get(code);
  if (known !== undefined) return known;
  if ((code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff) return "\ufffd";
  return isInvalid(code) ? "" : String.fromCodePoint(code);
}

/** Control characters and noncharacters, which disappear. */
function isInvalid(code: number): boolean {
  if (code < 0x20) return code !== 0x09 && code !== 0x0a && code !== 0x0c;
  if (code >= 0x7f && code <= 0x9f) return true;
  return (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) === 0xfffe;
}

/** The longest name that the reference begins with; some names need no semicolon. */
function namedReference(reference: string): string {
  const whole = htmlEntities.get(reference);
  if (whole !== undefined) return whole;
  const characters = Array.from(reference);
  for (let length = characters.length - 1; length > 1; length--) {
    const known = htmlEntities.get(characters.slice(0, length).join(""));
    if (known !== undefined) return known + characters.slice(length).join("");
  }
  return `&${reference}`;
}
