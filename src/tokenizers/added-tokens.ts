// Added tokens (`<|im_start|>`, `<think>`): strings that are cut out before any other step reads
// the text, and never merge. The rules are those of Hugging Face tokenizers: the leftmost match
// wins, among equals the longest; `normalized` tokens are searched after normalizing, the others
// before.

import type { TextRange } from "../core/index.ts";

/** One entry of "added_tokens", with its final id. */
export type AddedToken = {
  readonly id: number;
  readonly content: string;
  /** Matches only where no word character is adjacent. */
  readonly singleWord: boolean;
  /** Includes the white space to its left. */
  readonly lstrip: boolean;
  /** Includes the white space to its right. */
  readonly rstrip: boolean;
  /** Searched in the normalized text. */
  readonly normalized: boolean;
  /** Omitted by `skipSpecialTokens`. */
  readonly special: boolean;
};

const wordEnd = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d]$/u;
const wordStart = /^[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d]/u;
const space = /\p{White_Space}/u;
const asciiWord = /\w/;

/**
 * True if the token means something to a model beyond its text; runs of white space are ordinary
 * text in many vocabularies.
 */
export function isControlToken({ content }: { readonly content: string }): boolean {
  return /\P{White_Space}/u.test(content);
}

/**
 * Ids that `skipSpecialTokens` omits: not those that decode as normalized text that differs from
 * the token's content.
 */
export function specialTokenIds(
  tokens: readonly AddedToken[],
  normalize: (text: string) => string,
): ReadonlySet<number> {
  const isKept = ({ normalized, content }: AddedToken): boolean => !normalized || normalize(content) === content;
  return new Set(tokens.filter((token) => token.special && isKept(token)).map(({ id }) => id));
}

/**
 * Ranges in which no control token is recognised, in order and without overlaps, and the number of
 * tokens spelled out there.
 */
export type LiteralScan = { readonly ranges: readonly TextRange[]; spelledTokens: number };

/**
 * Receiver of the parts of a text: strings, with the place where each begins, and ids, in order.
 * Strings are never empty.
 */
export type CutTaker = {
  readonly text: (text: string, start: number) => void;
  readonly token: (id: number) => void;
};

/** Progress of cutting a text. */
export type CutProgress = {
  /** Offset at which the next added token is searched. */
  at: number;
  /** Everything before this has been taken. */
  done: number;
  /**
   * The first literal range that does not end before the last match: matches come in order, so no
   * range is read twice.
   */
  range: number;
  /**
   * The white space that the last token included: tokens may begin within it, and would otherwise
   * read all of it again.
   */
  space: { readonly start: number; readonly end: number };
};

export function uncut(): CutProgress {
  return { at: 0, done: 0, range: 0, space: { start: 0, end: 0 } };
}

/** Cuts a text at its added tokens. */
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

  split(text: string, take: CutTaker, literal: LiteralScan | null = null): void {
    this.splitSome(text, take, { literal, progress: uncut(), mostMatches: Infinity });
  }

  /** Continues to cut, at most at the next `mostMatches` matches; true at the end of the text. */
  splitSome(
    text: string,
    take: CutTaker,
    options: { readonly literal: LiteralScan | null; readonly progress: CutProgress; readonly mostMatches: number },
  ): boolean {
    const { literal, progress, mostMatches } = options;
    const pattern = this.#pattern;
    for (let matches = 0; matches < mostMatches; matches++) {
      if (pattern !== null) pattern.lastIndex = progress.at;
      const match = pattern?.exec(text) ?? null;
      if (match === null) {
        if (progress.done < text.length) take.text(text.slice(progress.done), progress.done);
        return true;
      }
      progress.at = match.index + match[0].length;
      let token = this.#tokens.get(match[0]);
      let start = match.index;
      let end = start + match[0].length;
      if (token === undefined || (token.singleWord && touchesWord(text, start, end))) continue;
      // oxlint-disable-next-line no-unmodified-loop-condition -- it says once whether there are ranges
      while (literal !== null && (literal.ranges[progress.range]?.end ?? Infinity) <= start) progress.range++;
      const touched = literal?.ranges[progress.range];
      if (literal !== null && touched !== undefined && touched.start < end && isControlToken(token)) {
        // The beginning may be a token that is outside literal text.
        token = touched.start <= start ? undefined : this.#longestWithin(text, start, touched.start);
        if (token === undefined) {
          literal.spelledTokens++;
          progress.at = touched.start <= start && end <= touched.end ? end : start + 1;
          continue;
        }
        end = start + token.content.length;
        progress.at = end;
      }
      if (token.lstrip) while (start > progress.done && space.test(text.charAt(start - 1))) start--;
      if (token.rstrip) end = endOfSpace(text, end, progress);
      if (progress.done < start) take.text(text.slice(progress.done, start), progress.done);
      take.token(token.id);
      progress.done = end;
    }
    return false;
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

function endOfSpace(text: string, start: number, progress: CutProgress): number {
  if (start < progress.space.start || start > progress.space.end) progress.space = { start, end: start };
  let { end } = progress.space;
  while (end < text.length && space.test(text.charAt(end))) end++;
  if (end > progress.space.end) progress.space = { start: progress.space.start, end };
  return end;
}

/**
 * The ranges within a part of the text, relative to its beginning. A long prompt has many of both.
 */
export function rangesWithin(ranges: readonly TextRange[], start: number, length: number): readonly TextRange[] {
  const within: TextRange[] = [];
  for (let at = firstEndingAfter(ranges, start); at < ranges.length; at++) {
    const range = ranges[at]!;
    if (range.start >= start + length) break;
    within.push({ start: Math.max(0, range.start - start), end: Math.min(length, range.end - start) });
  }
  return within;
}

/** Binary search, as ranges are in order. */
function firstEndingAfter(ranges: readonly TextRange[], place: number): number {
  let [low, high] = [0, ranges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ranges[middle]!.end > place) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * Number of characters before a border that are normalized again to find what composes across it.
 */
const composedCharacters = 64;

/**
 * The same ranges in the normalized text; a border within a composed sequence may be off by that
 * sequence. Each border is found from the one before it, so the total cost is that of the text, for
 * any number of ranges.
 */
export function normalizedRanges(
  text: string,
  ranges: readonly TextRange[],
  normalize: (text: string) => string,
): readonly TextRange[] {
  let known = { offset: 0, place: 0 };
  const place = (offset: number): number => {
    if (offset === known.offset) return known.place;
    // Both lengths include the prefix that a normalizer adds to a text, such as the mark of
    // SentencePiece.
    const from = settledBefore(text, known.offset);
    const before = from === known.offset ? 0 : normalize(text.slice(from, known.offset)).length;
    const added = normalize(text.slice(from, offset)).length - before;
    known = { offset, place: known.place + added };
    return known.place;
  };
  return ranges.map(({ start, end }) => ({ start: place(start), end: place(end) }));
}

/**
 * A place shortly before `offset` that nothing composes across: before a letter or digit of ASCII,
 * or the beginning.
 */
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
