// Where each message stands in the tokens of a rendered prompt. The prompt is encoded once, as a whole, so its tokens are
// those of the family's own tooling; the places of messages are found in it afterwards.

import type { MessageSpan, TextRange, Tokenizer } from "../core/index.ts";
import type { TemplateSegment } from "./chat-template.ts";

export type EncodedPrompt = {
  readonly segments: readonly TemplateSegment[];
  readonly text: string;
  /** Where a start token is only spelled out. */
  readonly literal: readonly TextRange[];
  readonly tokens: Uint32Array;
};

/**
 * One span per message, in order. Neighbouring messages touch, and the last one ends where the generation prompt begins.
 * A message that renders to nothing has an empty span; a token that two messages share belongs to the first of them.
 */
export function messageSpans(
  prompt: EncodedPrompt,
  options: { readonly tokenizer: Tokenizer; readonly startToken: string; readonly messageCount: number },
): MessageSpan[] {
  const locate = createLocator(prompt, options.tokenizer, options.startToken);
  const ranges = characterRanges(prompt.segments);
  const spans: MessageSpan[] = [];
  let previousEnd = locate(firstMessageOffset(prompt.segments));
  for (let message = 0; message < options.messageCount; message++) {
    const range = ranges.get(message);
    const start = range === undefined ? previousEnd : locate(range.start);
    const end = range === undefined ? previousEnd : locate(range.end);
    spans.push({ message, start, end });
    previousEnd = end;
  }
  return spans;
}

function characterRanges(segments: readonly TemplateSegment[]): Map<number, { start: number; end: number }> {
  const ranges = new Map<number, { start: number; end: number }>();
  let offset = 0;
  for (const { message, text } of segments) {
    const end = offset + text.length;
    if (message !== null) {
      const range = ranges.get(message);
      if (range === undefined) ranges.set(message, { start: offset, end });
      else range.end = end;
    }
    offset = end;
  }
  return ranges;
}

function firstMessageOffset(segments: readonly TemplateSegment[]): number {
  let offset = 0;
  for (const { message, text } of segments) {
    if (message !== null) return offset;
    offset += text.length;
  }
  return 0;
}

/** Finds the token that begins at a character offset (or the first one after it, where a token straddles the offset). */
function createLocator(prompt: EncodedPrompt, tokenizer: Tokenizer, startToken: string): (offset: number) => number {
  const { text, literal, tokens } = prompt;
  const startId = tokenizer.tokenId(startToken);
  const textStarts = placesOf(text, startToken).filter(
    (start) => !literal.some((range) => range.start < start + startToken.length && start < range.end),
  );
  const tokenStarts = startId === null ? [] : placesOfId(tokens, startId);
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
    const wanted = tokenizer.decode(tokenizer.encode(text.slice(fromText, offset))).length;
    return fromToken + countTokens(tokens.subarray(fromToken), wanted, tokenizer);
  };
}

function placesOf(text: string, part: string): number[] {
  const places: number[] = [];
  for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + part.length)) places.push(at);
  return places;
}

function placesOfId(tokens: Uint32Array, id: number): number[] {
  const places: number[] = [];
  for (let at = tokens.indexOf(id); at !== -1; at = tokens.indexOf(id, at + 1)) places.push(at);
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
