// Python's text functions that differ from JavaScript's: white space, lower case, the order and the
// count of characters.

import { isPrintable } from "./string-repr.ts";

/**
 * Content of a character class: Python's white space, as in `\s` and `strip`. JavaScript's differs
 * in six characters.
 */
export const whitespaceClass = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";

/** `\s`, for patterns with the flag "u". */
export const space = `[${whitespaceClass}]`;

/** Content of a character class: the characters that `\w` matches in text. */
export const wordCharacters = "\\p{L}\\p{N}_";

/** A pattern that joins parts with optional white space between them. */
export const spaced = (...parts: readonly string[]): string => parts.join(`${space}*`);

/** A pattern that matches exactly this text. */
export const verbatim = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");

const spaceCharacter = new RegExp(`^${space}$`, "u");

/** `character.isspace()`. */
export function isSpace(character: string): boolean {
  return spaceCharacter.test(character);
}

const whitespace = new Set(
  "\t\n\v\f\r\u001c\u001d\u001e\u001f \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000",
);

/** `text.strip(characters)`; strips whitespace (`str.isspace`) by default. */
export function pythonStrip(text: string, characters?: string): string {
  return pythonLstrip(pythonRstrip(text, characters), characters);
}

/** `text.lstrip(characters)`. */
export function pythonLstrip(text: string, characters?: string): string {
  const stripped = characters === undefined ? whitespace : new Set(characters);
  let start = 0;
  while (start < text.length) {
    const character = String.fromCodePoint(text.codePointAt(start)!);
    if (!stripped.has(character)) break;
    start += character.length;
  }
  return text.slice(start);
}

/** `text.rstrip(characters)`. */
export function pythonRstrip(text: string, characters?: string): string {
  const stripped = characters === undefined ? whitespace : new Set(characters);
  let end = text.length;
  while (end > 0) {
    const character = lastCharacter(text, end);
    if (!stripped.has(character)) break;
    end -= character.length;
  }
  return text.slice(0, end);
}

function lastCharacter(text: string, end: number): string {
  const isLow = (text.charCodeAt(end - 1) & 0xfc00) === 0xdc00;
  const isPair = isLow && end > 1 && (text.charCodeAt(end - 2) & 0xfc00) === 0xd800;
  return text.slice(isPair ? end - 2 : end - 1, end);
}

// oxlint-disable-next-line no-control-regex
const ascii = /^[\u0000-\u007f]*$/;

/** `str.lower()` of CPython 3.11: letters added to Unicode after version 14 are unchanged. */
export function pythonLower(text: string): string {
  const lowered = text.toLowerCase();
  if (lowered === text || ascii.test(text)) return lowered;
  let result = "";
  let piece = "";
  for (const character of text) {
    if (isNewerLetter(character)) {
      // A sigma next to such a letter may get its other form; no text is known to need it.
      result += piece.toLowerCase() + character;
      piece = "";
    } else {
      piece += character;
    }
  }
  return result === "" ? lowered : result + piece.toLowerCase();
}

/**
 * Code points unassigned in version 14 count as unprintable, and at that time unprintable ones had
 * no lower case.
 */
function isNewerLetter(character: string): boolean {
  return character.toLowerCase() !== character && !isPrintable(character.codePointAt(0)!);
}

/**
 * Order of strings by code point; JavaScript's order puts astral characters before U+E000. For
 * `Array.prototype.sort`.
 */
export function compareCodePoints(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  for (let index = 0; index < length; index++) {
    const a = left.charCodeAt(index);
    const b = right.charCodeAt(index);
    if (a !== b) return rank(left, index, a) - rank(right, index, b);
  }
  return left.length - right.length;
}

/**
 * The unit for comparison: units of surrogate pairs are raised above the basic plane; lone
 * surrogates are unchanged.
 */
function rank(text: string, index: number, unit: number): number {
  if ((unit & 0xf800) !== 0xd800) return unit;
  const isHigh = unit < 0xdc00;
  const neighbour = text.charCodeAt(isHigh ? index + 1 : index - 1);
  const isPaired = isHigh ? (neighbour & 0xfc00) === 0xdc00 : (neighbour & 0xfc00) === 0xd800;
  return isPaired ? unit + 0x10000 : unit;
}

const pair = /[\ud800-\udbff][\udc00-\udfff]/;

/** `len(text)`. */
export function codePointLength(text: string): number {
  if (!pair.test(text)) return text.length;
  let length = 0;
  for (const _ of text) length++;
  return length;
}

/**
 * UTF-16 offset of the code point with this index; the end of the text for an index at or past its
 * length.
 */
export function unitOffset(text: string, index: number): number {
  if (!pair.test(text)) return Math.min(index, text.length);
  let offset = 0;
  for (let passed = 0; passed < index && offset < text.length; passed++) {
    offset += text.codePointAt(offset)! > 0xffff ? 2 : 1;
  }
  return offset;
}

/** Number of code points before a UTF-16 offset. */
export function codePointIndex(text: string, offset: number): number {
  return codePointLength(text.slice(0, offset));
}
