// Finds delimited pieces in text as the formats' regular expressions do (shortest, left to right,
// not overlapping), in time linear in the text; also the text that streaming holds back: beginnings
// of markers, white space that may be stripped.

import { pythonLstrip, pythonRstrip } from "../python-semantics/index.ts";

export type TextBlock = {
  /** Start of the opening delimiter. */
  readonly start: number;
  readonly body: string;
  /** Position after the closing delimiter. */
  readonly end: number;
};

/** Pieces between two delimiters, as `opening(.*?)closing` finds them; an unclosed one ends the search. */
export function* blocksBetween(text: string, opening: string, closing: string): Generator<TextBlock> {
  for (let start = text.indexOf(opening); start !== -1;) {
    const bodyStart = start + opening.length;
    const bodyEnd = text.indexOf(closing, bodyStart);
    if (bodyEnd === -1) return;
    const end = bodyEnd + closing.length;
    yield { start, body: text.slice(bodyStart, bodyEnd), end };
    start = text.indexOf(opening, end);
  }
}

/**
 * Yields the text after each opening, up to its closing; for the last one up to `end` if its
 * closing is missing.
 */
export function* openBlocks(text: string, opening: string, closing: string, end = text.length): Generator<string> {
  let rest = 0;
  for (const block of blocksBetween(text, opening, closing)) {
    yield block.body;
    rest = block.end;
  }
  const unclosed = text.indexOf(opening, rest);
  if (unclosed !== -1) yield text.slice(unclosed + opening.length, end);
}

/** Where Python's `$` first matches: before a line feed that ends the text, else at the end. */
export function dollar(text: string): number {
  return text.endsWith("\n") ? text.length - 1 : text.length;
}

/** Length of the longest ending of `text.slice(0, limit)` that could become one of the markers. */
export function beginningOfOne(text: string, limit: number, markers: readonly string[]): number {
  let longest = 0;
  for (const marker of markers) {
    for (let length = Math.min(marker.length - 1, limit); length > longest; length--) {
      if (text.startsWith(marker.slice(0, length), limit - length)) {
        longest = length;
        break;
      }
    }
  }
  return longest;
}

/** Drops white space at the beginning of a stream, and holds it back at its end unless the piece is the last. A run of white space is not searched again with every piece. */
export function stripping(): (piece: string, isLast?: boolean) => string {
  let blanks: string[] = [];
  let hasBegun = false;
  return (piece, isLast = false) => {
    const shown = hasBegun ? piece : pythonLstrip(piece);
    const content = isLast ? shown : pythonRstrip(shown);
    const blank = shown.slice(content.length);
    if (content === "" && !(isLast && hasBegun)) {
      if (hasBegun) blanks.push(blank);
      return "";
    }
    const all = blanks.join("") + content;
    blanks = [blank];
    hasBegun = true;
    return all;
  };
}
