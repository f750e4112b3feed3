// Finding delimited pieces in text the way the formats' regular expressions do (shortest, left to right, not overlapping),
// in time linear in the text.

export type TextBlock = {
  /** Where the opening delimiter begins. */
  readonly start: number;
  readonly body: string;
  /** After the closing delimiter. */
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

/** Where Python's `$` first matches: before a line feed that ends the text, else at the end. */
export function dollar(text: string): number {
  return text.endsWith("\n") ? text.length - 1 : text.length;
}
