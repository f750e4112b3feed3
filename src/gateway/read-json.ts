// Reads a JSON body in steps: a client may send a hundred thousand messages at once, and `JSON.parse` of them is one long call. Long
// arrays and objects are cut where a scan finds their commas, and the parts are given to `JSON.parse`: what it refuses is refused here,
// and what it reads is read as it reads it.

import type { Steps } from "../lib/steps.ts";

/** Characters that are parsed at once, in about a millisecond. */
const shortText = 65_536;
/** Deeper arrays and objects are parsed at once: each level is scanned again. */
const deepest = 4;

/** Throws a `SyntaxError` for text that is not JSON. */
export function readJson(text: string): Steps<unknown> {
  return readValue(text, 0);
}

function* readValue(text: string, level: number): Steps<unknown> {
  const start = skipSpace(text, 0);
  const opening = text[start];
  if (text.length <= shortText || level > deepest || (opening !== "{" && opening !== "[")) {
    const value: unknown = JSON.parse(text);
    yield;
    return value;
  }
  let end = text.length;
  while (isSpace(text.charCodeAt(end - 1))) end--;
  const inner = text.slice(start + 1, end - 1);
  if (text[end - 1] !== (opening === "{" ? "}" : "]")) throw new SyntaxError("Its end is missing.");
  return opening === "{" ? yield* readMembers(inner, level) : yield* readItems(inner, level);
}

/** Short items go to the parser many at a time. */
function* readItems(inner: string, level: number): Steps<unknown[]> {
  const items: unknown[] = [];
  let batchStart = 0;
  const readBatch = (batchEnd: number): void => {
    if (batchEnd <= batchStart) return;
    for (const item of JSON.parse(`[${inner.slice(batchStart, batchEnd)}]`) as unknown[]) items.push(item);
  };
  for (const { start, end } of partsOf(inner)) {
    if (isBlank(inner, start, end)) {
      // Only an array without any item has a blank one.
      if (start === 0 && end === inner.length) return [];
      throw new SyntaxError("An item is missing.");
    }
    if (end - start > shortText) {
      readBatch(start - 1);
      items.push(yield* readValue(inner.slice(start, end), level + 1));
      batchStart = end + 1;
    } else if (end - batchStart > shortText) {
      readBatch(end);
      batchStart = end + 1;
      yield;
    }
  }
  readBatch(inner.length);
  return items;
}

function* readMembers(inner: string, level: number): Steps<object> {
  const members: [string, unknown][] = [];
  for (const { start, end } of partsOf(inner)) {
    if (isBlank(inner, start, end)) {
      if (start === 0 && end === inner.length) return {};
      throw new SyntaxError("A member is missing.");
    }
    const keyStart = skipSpace(inner, start);
    const keyEnd = endOfString(inner, keyStart);
    const colon = skipSpace(inner, keyEnd);
    if (inner[keyStart] !== '"' || inner[colon] !== ":" || colon >= end) throw new SyntaxError("A name is missing.");
    const key = JSON.parse(inner.slice(keyStart, keyEnd)) as string;
    members.push([key, yield* readValue(inner.slice(colon + 1, end), level + 1)]);
  }
  // An own property for every name, "__proto__" too, and the last of equal ones: as `JSON.parse` does.
  return Object.fromEntries(members);
}

/** The parts of a text between its top-level commas; there is at least one. */
function* partsOf(inner: string): Generator<{ readonly start: number; readonly end: number }, void, void> {
  let start = 0;
  let depth = 0;
  for (let at = 0; at < inner.length; at++) {
    switch (inner.charCodeAt(at)) {
      case quote:
        at = endOfString(inner, at) - 1;
        break;
      case 0x5b:
      case 0x7b:
        depth++;
        break;
      case 0x5d:
      case 0x7d:
        depth--;
        break;
      case 0x2c:
        if (depth === 0) {
          yield { start, end: at };
          start = at + 1;
        }
        break;
      default:
    }
  }
  yield { start, end: inner.length };
}

const quote = 0x22;
const backslash = 0x5c;

/** After the quote that closes the string which begins here; the end of the text where none does. */
function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let slashes = 0;
    while (text.charCodeAt(at - 1 - slashes) === backslash && at - 1 - slashes > start) slashes++;
    if (slashes % 2 === 0) return at + 1;
  }
  return text.length;
}

function skipSpace(text: string, start: number): number {
  let at = start;
  while (isSpace(text.charCodeAt(at))) at++;
  return at;
}

function isBlank(text: string, start: number, end: number): boolean {
  return skipSpace(text, start) >= end;
}

/** JSON's white space. */
function isSpace(unit: number): boolean {
  return unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09;
}
