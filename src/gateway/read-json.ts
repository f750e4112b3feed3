// Parses a JSON body in steps: a client may send a hundred thousand messages at once, and
// `JSON.parse` would block for all of them. Long arrays and objects are split at the commas that a
// scan finds, and `JSON.parse` parses the parts: the accepted texts and their values are the same
// as with `JSON.parse`.

import type { Steps } from "../lib/steps.ts";

/** Number of characters that are parsed at once, in about a millisecond. */
const shortText = 65_536;
/** Depth from which arrays and objects are parsed at once, because each level is scanned again. */
const deepest = 4;

/** Parses JSON. Throws a `SyntaxError` for invalid text. */
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

/** Short items are parsed many at a time. */
function* readItems(inner: string, level: number): Steps<unknown[]> {
  const items: unknown[] = [];
  let batchStart = 0;
  const readBatch = (batchEnd: number): void => {
    if (batchEnd <= batchStart) return;
    for (const item of JSON.parse(`[${inner.slice(batchStart, batchEnd)}]`) as unknown[]) items.push(item);
  };
  for (const { start, end } of partsOf(inner)) {
    if (isBlank(inner, start, end)) {
      // Only an empty array has a blank item.
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
  // Every name becomes an own property, "__proto__" included, and the last of duplicates wins, the
  // same as with `JSON.parse`.
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

/**
 * Index after the closing quote of the string that begins here, or the end of the text if it is not
 * closed.
 */
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

/** True for JSON white space. */
function isSpace(unit: number): boolean {
  return unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09;
}
