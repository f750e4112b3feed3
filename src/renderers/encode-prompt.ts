// Rendered segments to token ids, and the place of each message in them. The text is encoded as a
// whole, because a token may span two segments; text of users and tools is literal. Only this file
// decides whose control tokens are recognised, for every family and every template.

import type { LiteralEncoding, Message, MessageSpan, TextRange, Tokenizer } from "../core/index.ts";
import { type Steps, stepItems } from "../lib/steps.ts";
import { type TemplateSegment } from "./chat-template.ts";
import { segmentsText } from "./segments.ts";

export type EncodedSegments = LiteralEncoding & {
  readonly text: string;
  /** Ranges of `text` in which no control token was recognised. */
  readonly literal: readonly TextRange[];
};

export type EncodeSegmentsOptions = {
  /** The messages that segments point to. */
  readonly messages: readonly Message[];
  readonly tokenizer: Tokenizer;
  readonly controlTokens: "text" | "parse";
  /** Number of leading characters that are skipped, because they are encoded already. */
  readonly from: number;
};

export function* encodeSegments(
  segments: readonly TemplateSegment[],
  options: EncodeSegmentsOptions,
): Steps<EncodedSegments> {
  const { messages, tokenizer, controlTokens, from } = options;
  const text = segmentsText(segments).slice(from);
  const literal = controlTokens === "text" ? yield* literalRanges(segments, messages, from) : [];
  // A short text is encoded at once: the cache of earlier strings saves more than a pause.
  if (text.length > shortText && tokenizer.encodeInSteps !== undefined) {
    yield;
    return { text, literal, ...(yield* tokenizer.encodeInSteps(text, literal)) };
  }
  if (literal.length === 0) return { text, literal, tokens: tokenizer.encode(text), spelledTokens: 0 };
  return { text, literal, ...tokenizer.encodeLiteral(text, literal) };
}

/** Characters that are encoded in some milliseconds. */
const shortText = 32_768;

function* literalRanges(
  segments: readonly TemplateSegment[],
  messages: readonly Message[],
  from: number,
): Steps<readonly TextRange[]> {
  const ranges: { start: number; end: number }[] = [];
  let end = -from;
  let newest = 0;
  for (const [place, segment] of segments.entries()) {
    if (place % stepItems === stepItems - 1) yield;
    const start = Math.max(0, end);
    end += segment.text.length;
    // Text that a template copies into a later message, such as the name of a call into its result,
    // is not written as it was sampled.
    const isTakenOver = segment.message !== null && segment.message < newest;
    newest = Math.max(newest, segment.message ?? 0);
    if (end <= start || !isLiteral(segment, messages, isTakenOver)) continue;
    const last = ranges.at(-1);
    if (last?.end === start) last.end = end;
    else ranges.push({ start, end });
  }
  return ranges;
}

/**
 * Guidelines and tool definitions come from the operator, so their control tokens are recognised,
 * as are those of answers in a history.
 */
function isLiteral({ source, message }: TemplateSegment, messages: readonly Message[], isTakenOver: boolean): boolean {
  if (source !== "message") return source === "unknown";
  const role = message === null ? undefined : messages[message]?.role;
  return role !== "system" && (role !== "assistant" || isTakenOver);
}

export type EncodedPrompt = Pick<EncodedSegments, "text" | "literal" | "tokens"> & {
  readonly segments: readonly TemplateSegment[];
};

/**
 * One span per message, in order. Neighbouring messages touch, and the last one ends where the generation prompt begins.
 * A message that renders to nothing has an empty span; a token that two messages share belongs to the first of them.
 */
export function messageSpans(
  prompt: EncodedPrompt,
  options: { readonly tokenizer: Tokenizer; readonly startToken: string; readonly messageCount: number },
): MessageSpan[] {
  const { text, literal, segments } = prompt;
  const { startToken, messageCount } = options;
  const starts = outsideOf(literal, placesOf(text, startToken, startToken.length), startToken.length);
  const ranges = characterRanges(segments, starts);
  let first = text.length;
  for (const { start } of ranges.values()) first = Math.min(first, start);
  const places: { readonly start: number; readonly end: number }[] = [];
  let previousEnd = first;
  for (let message = 0; message < messageCount; message++) {
    const range = ranges.get(message);
    const start = range?.start ?? previousEnd;
    previousEnd = range === undefined ? previousEnd : endOf(range, ranges.get(message + 1));
    places.push({ start, end: previousEnd });
  }
  const tokenAt = locateAll([first, ...places.flatMap(({ start, end }) => [start, end])], prompt, {
    ...options,
    textStarts: starts,
  });
  return places.map(({ start, end }, message) => ({ message, start: tokenAt.get(start)!, end: tokenAt.get(end)! }));
}

/** The places at which a text of this length overlaps none of the ranges. Both are in order. */
function outsideOf(ranges: readonly TextRange[], places: readonly number[], length: number): readonly number[] {
  let at = 0;
  return places.filter((place) => {
    while ((ranges[at]?.end ?? Infinity) <= place) at++;
    return (ranges[at]?.start ?? Infinity) >= place + length;
  });
}

type CharacterRange = { start: number; end: number };

/**
 * Text between two messages that belongs to neither, such as tools after the guidelines, is
 * attributed to the first.
 */
function endOf(range: CharacterRange, next: CharacterRange | undefined): number {
  return next === undefined || next.start < range.end ? range.end : next.start;
}

function characterRanges(
  segments: readonly TemplateSegment[],
  starts: readonly number[],
): ReadonlyMap<number, CharacterRange> {
  const ranges = new Map<number, CharacterRange>();
  let offset = 0;
  for (const { message, text } of segments) {
    const end = offset + text.length;
    if (message !== null) {
      const range = ranges.get(message);
      if (range !== undefined) range.end = end;
      // Guidelines are often opened outside the loop over messages, where text belongs to no
      // message.
      else if (ranges.size === 0)
        ranges.set(message, { start: starts.findLast((start) => start <= offset) ?? offset, end });
      else ranges.set(message, { start: offset, end });
    }
    offset = end;
  }
  return ranges;
}

/**
 * The tokens that begin at character offsets (or the first ones after them, if a token straddles
 * the offset). All offsets in one pass, in order: each is found from the one before it, so the
 * total cost is that of the text.
 */
function locateAll(
  offsets: readonly number[],
  { text, tokens }: EncodedPrompt,
  options: {
    readonly tokenizer: Tokenizer;
    readonly startToken: string;
    /** Places of the start token in the text. */
    readonly textStarts: readonly number[];
  },
): ReadonlyMap<number, number> {
  const { tokenizer, startToken, textStarts } = options;
  const startId = tokenizer.tokenId(startToken);
  const tokenStarts = startId === null ? [] : placesOf(tokens, startId, 1);
  // Added tokens are cut out of the text first, so the n-th start text is the n-th start token.
  const isAnchored = textStarts.length === tokenStarts.length;
  const located = new Map<number, number>([
    [0, 0],
    [text.length, tokens.length],
  ]);
  let nextAnchor = 0;
  let [offset, token] = [0, 0];
  /** Numbers of characters since the anchor: those that the tokens write, and those of the text. */
  let [written, expected] = [0, 0];
  let decoder = tokenizer.startDecoding();
  for (const wanted of offsets.toSorted((a, b) => a - b)) {
    if (located.has(wanted)) continue;
    // oxlint-disable-next-line no-unmodified-loop-condition -- it says once whether there are anchors
    for (; isAnchored && (textStarts[nextAnchor] ?? Infinity) <= wanted; nextAnchor++) {
      [offset, token] = [textStarts[nextAnchor]!, tokenStarts[nextAnchor]!];
      [written, expected] = [0, 0];
      decoder = tokenizer.startDecoding();
    }
    // Compared as decoded text: a normalizer may have changed lengths.
    if (wanted > offset) expected += tokenizer.decode(tokenizer.encode(text.slice(offset, wanted))).length;
    for (; written < expected && token < tokens.length; token++) written += decoder.push(tokens[token]!).length;
    offset = wanted;
    located.set(wanted, token);
  }
  return located;
}

/** Places of a part in a text or in tokens, without overlaps. */
function placesOf<T>(whole: { indexOf(part: T, from: number): number }, part: T, length: number): number[] {
  const places: number[] = [];
  for (let at = whole.indexOf(part, 0); at !== -1; at = whole.indexOf(part, at + length)) places.push(at);
  return places;
}
