// Added tokens (`<|im_start|>`, `<think>`): texts that are cut out before anything else looks at the text, and never merge.
// The rules are those of Hugging Face tokenizers: the leftmost match wins, of those the longest; `normalized` tokens are
// looked for after normalizing, the others before.

import type { TextRange } from "../core/index.ts";

/** One entry of "added_tokens", its id settled. */
export type AddedToken = {
  readonly id: number;
  readonly content: string;
  /** Matches only where no word character touches it. */
  readonly singleWord: boolean;
  /** Takes the white space to its left with it. */
  readonly lstrip: boolean;
  /** Takes the white space to its right with it. */
  readonly rstrip: boolean;
  /** Looked for in the normalized text. */
  readonly normalized: boolean;
  /** Left out by `skipSpecialTokens`. */
  readonly special: boolean;
};

const wordEnd = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d]$/u;
const wordStart = /^[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d]/u;
const space = /\p{White_Space}/u;
const asciiWord = /\w/;

/** Whether the token means something to a model beyond its text; runs of white space are ordinary text in many vocabularies. */
export function isControlToken({ content }: { readonly content: string }): boolean {
  return /\P{White_Space}/u.test(content);
}

/** Ranges in which no control token is recognised, in order and without overlaps, and how many were spelled out there. */
export type LiteralScan = { readonly ranges: readonly TextRange[]; spelledTokens: number };

/** Cuts a text at the added tokens that it was made for. */
export class AddedTokenSplitter {
  readonly #tokens = new Map<string, AddedToken>();
  readonly #pattern: RegExp | null;

  constructor(tokens: readonly AddedToken[]) {
    for (const token of tokens) if (!this.#tokens.has(token.content)) this.#tokens.set(token.content, token);
    const longestFirst = [...this.#tokens.keys()].sort((a, b) => b.length - a.length);
    const escaped = longestFirst.map((content) => content.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    this.#pattern = escaped.length === 0 ? null : new RegExp(escaped.join("|"), "g");
  }

  get isEmpty(): boolean {
    return this.#pattern === null;
  }

  /** Calls `takeText`, with the place where the text begins, and `takeToken` in order; texts are never empty. */
  split(
    text: string,
    takeText: (text: string, start: number) => void,
    takeToken: (id: number) => void,
    literal: LiteralScan | null = null,
  ): void {
    if (this.#pattern === null) {
      if (text !== "") takeText(text, 0);
      return;
    }
    const pattern = this.#pattern;
    let done = 0;
    /** The first literal range that does not end before the match. Matches come in order, so no range is looked at twice. */
    let range = 0;
    pattern.lastIndex = 0;
    for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
      let token = this.#tokens.get(match[0]);
      let start = match.index;
      let end = start + match[0].length;
      if (token === undefined || (token.singleWord && touchesWord(text, start, end))) continue;
      while (literal !== null && (literal.ranges[range]?.end ?? Infinity) <= start) range++;
      const touched = literal?.ranges[range];
      if (literal !== null && touched !== undefined && touched.start < end && isControlToken(token)) {
        // The beginning may be a token that was not written in literal text.
        token = touched.start <= start ? undefined : this.#longestWithin(text, start, touched.start);
        if (token === undefined) {
          literal.spelledTokens++;
          pattern.lastIndex = touched.start <= start && end <= touched.end ? end : start + 1;
          continue;
        }
        end = start + token.content.length;
        pattern.lastIndex = end;
      }
      if (token.lstrip) while (start > done && space.test(text.charAt(start - 1))) start--;
      if (token.rstrip) while (end < text.length && space.test(text.charAt(end))) end++;
      if (done < start) takeText(text.slice(done, start), done);
      takeToken(token.id);
      done = end;
    }
    if (done < text.length) takeText(text.slice(done), done);
  }

  #longestWithin(text: string, start: number, end: number): AddedToken | undefined {
    let longest: AddedToken | undefined;
    for (const token of this.#tokens.values()) {
      const { length } = token.content;
      if (length > end - start || length <= (longest?.content.length ?? 0)) continue;
      if (text.startsWith(token.content, start)) longest = token;
    }
    return longest;
  }
}

/** The ranges within a part of the text, counted from its beginning. A long prompt has many of both. */
export function rangesWithin(ranges: readonly TextRange[], start: number, length: number): readonly TextRange[] {
  const within: TextRange[] = [];
  for (let at = firstEndingAfter(ranges, start); at < ranges.length; at++) {
    const range = ranges[at]!;
    if (range.start >= start + length) break;
    within.push({ start: Math.max(0, range.start - start), end: Math.min(length, range.end - start) });
  }
  return within;
}

/** By halving: ranges are in order. */
function firstEndingAfter(ranges: readonly TextRange[], place: number): number {
  let [low, high] = [0, ranges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ranges[middle]!.end > place) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Characters before a border that are normalized again to find what composes across it. */
const composedCharacters = 64;

/**
 * The same ranges in the normalized text; a border in the middle of what is composed may be off by what is composed. Each border
 * is found from the one before it, so that the whole costs what its text costs, however many ranges there are.
 */
export function normalizedRanges(
  text: string,
  ranges: readonly TextRange[],
  normalize: (text: string) => string,
): readonly TextRange[] {
  let known = { offset: 0, place: 0 };
  const place = (offset: number): number => {
    if (offset === known.offset) return known.place;
    // Both lengths count what a normalizer puts before a text, such as the mark of SentencePiece.
    const from = settledBefore(text, known.offset);
    const before = from === known.offset ? 0 : normalize(text.slice(from, known.offset)).length;
    const added = normalize(text.slice(from, offset)).length - before;
    known = { offset, place: known.place + added };
    return known.place;
  };
  return ranges.map(({ start, end }) => ({ start: place(start), end: place(end) }));
}

/** A place near before `offset` that nothing composes across: before a letter or digit of ASCII, or the beginning. */
function settledBefore(text: string, offset: number): number {
  const nearest = Math.max(0, offset - composedCharacters);
  for (let at = offset - 1; at > nearest; at--) {
    const unit = text.charCodeAt(at);
    if (unit < 0x80 && asciiWord.test(text.charAt(at))) return at;
  }
  return nearest;
}

function touchesWord(text: string, start: number, end: number): boolean {
  return wordEnd.test(text.slice(Math.max(0, start - 2), start)) || wordStart.test(text.slice(end, end + 2));
}
