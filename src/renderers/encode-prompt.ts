// Rendered segments to token ids, and where each message stands in them. The text is encoded as a whole, because tokens may
// reach over borders of segments; what users and tools wrote is literal in it. This is the one place that decides whose control
// tokens are recognised, for every family and every template.

import type { LiteralEncoding, Message, MessageSpan, TextRange, Tokenizer } from "../core/index.ts";
import { segmentsText, type TemplateSegment } from "./chat-template.ts";

export type EncodedSegments = LiteralEncoding & {
  readonly text: string;
  /** Where in `text` no control token was recognised. */
  readonly literal: readonly TextRange[];
};

export type EncodeSegmentsOptions = {
  /** The messages that segments point to. */
  readonly messages: readonly Message[];
  readonly tokenizer: Tokenizer;
  readonly controlTokens: "text" | "parse";
  /** Characters of the text that are left out, being encoded already. */
  readonly from: number;
};

export function encodeSegments(segments: readonly TemplateSegment[], options: EncodeSegmentsOptions): EncodedSegments {
  const { messages, tokenizer, controlTokens, from } = options;
  const text = segmentsText(segments).slice(from);
  const literal = controlTokens === "text" ? literalRanges(segments, messages, from) : [];
  if (literal.length === 0) return { text, literal, tokens: tokenizer.encode(text), spelledTokens: 0 };
  return { text, literal, ...tokenizer.encodeLiteral(text, literal) };
}

function literalRanges(
  segments: readonly TemplateSegment[],
  messages: readonly Message[],
  from: number,
): readonly TextRange[] {
  const ranges: { start: number; end: number }[] = [];
  let end = -from;
  let newest = 0;
  for (const segment of segments) {
    const start = Math.max(0, end);
    end += segment.text.length;
    // What a template takes over into a later message, as the name of a call into its result, is not written as it was sampled.
    const isTakenOver = segment.message !== null && segment.message < newest;
    newest = Math.max(newest, segment.message ?? 0);
    if (end <= start || !isLiteral(segment, messages, isTakenOver)) continue;
    const last = ranges.at(-1);
    if (last?.end === start) last.end = end;
    else ranges.push({ start, end });
  }
  return ranges;
}

/** Guidelines and tool definitions are the operator's, and keep the template's reading, as do answers written into a history. */
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
  const { startToken } = options;
  const starts = placesOf(text, startToken, startToken.length).filter(
    (start) => !literal.some((range) => range.start < start + startToken.length && start < range.end),
  );
  const locate = createLocator(prompt, options, starts);
  const ranges = characterRanges(segments, starts);
  const spans: MessageSpan[] = [];
  let previousEnd = locate(Math.min(...[...ranges.values()].map(({ start }) => start), text.length));
  for (let message = 0; message < options.messageCount; message++) {
    const range = ranges.get(message);
    const start = range === undefined ? previousEnd : locate(range.start);
    const end = range === undefined ? previousEnd : locate(endOf(range, ranges.get(message + 1)));
    spans.push({ message, start, end });
    previousEnd = end;
  }
  return spans;
}

type CharacterRange = { start: number; end: number };

/** What stands between two messages and is of neither, such as tools after the guidelines, belongs to the first. */
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
      // Guidelines are often opened outside the loop over messages, where text is of no message.
      else if (ranges.size === 0)
        ranges.set(message, { start: starts.findLast((start) => start <= offset) ?? offset, end });
      else ranges.set(message, { start: offset, end });
    }
    offset = end;
  }
  return ranges;
}

/** Finds the token that begins at a character offset (or the first one after it, where a token straddles the offset). */
function createLocator(
  { text, tokens }: EncodedPrompt,
  { tokenizer, startToken }: { readonly tokenizer: Tokenizer; readonly startToken: string },
  textStarts: readonly number[],
): (offset: number) => number {
  const startId = tokenizer.tokenId(startToken);
  const tokenStarts = startId === null ? [] : placesOf(tokens, startId, 1);
  // Added tokens are cut out of the text first, so the n-th start text is the n-th start token.
  const isAnchored = textStarts.length === tokenStarts.length;
  return (offset) => {
    if (offset === 0) return 0;
    if (offset === text.length) return tokens.length;
    const anchor = isAnchored ? textStarts.findLastIndex((start) => start <= offset) : -1;
    const fromText = anchor === -1 ? 0 : textStarts[anchor]!;
    const fromToken = anchor === -1 ? 0 : tokenStarts[anchor]!;
    if (fromText === offset) return fromToken;
    // Compared as decoded text: a normalizer may have changed lengths.
    const written = tokenizer.decode(tokenizer.encode(text.slice(fromText, offset))).length;
    return fromToken + countTokens(tokens.subarray(fromToken), written, tokenizer);
  };
}

/** Where a part stands in a text or in tokens, without overlaps. */
function placesOf<T>(whole: { indexOf(part: T, from: number): number }, part: T, length: number): number[] {
  const places: number[] = [];
  for (let at = whole.indexOf(part, 0); at !== -1; at = whole.indexOf(part, at + length)) places.push(at);
  return places;
}

/** How many tokens it takes to write `length` characters. */
function countTokens(tokens: Uint32Array, length: number, tokenizer: Tokenizer): number {
  const decoder = tokenizer.startDecoding();
  let written = 0;
  let count = 0;
  for (const id of tokens) {
    if (written >= length) break;
    written += decoder.push(id).length;
    count++;
  }
  return count;
}
