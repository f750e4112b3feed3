// Rendered segments to token ids, by where their text comes from. The text is encoded as a whole, because tokens may reach
// over borders of segments; what users and tools wrote is literal in it. This is the one place that knows whom a control
// token is taken from, for every family and every template.

import type { LiteralEncoding, Message, TextRange, Tokenizer } from "../core/index.ts";
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
  for (const segment of segments) {
    const start = Math.max(0, end);
    end += segment.text.length;
    if (end <= start || !isLiteral(segment, messages)) continue;
    const last = ranges.at(-1);
    if (last?.end === start) last.end = end;
    else ranges.push({ start, end });
  }
  return ranges;
}

/** Guidelines and tool definitions are the operator's, and keep the template's reading, as do answers written into a history. */
function isLiteral({ source, message }: TemplateSegment, messages: readonly Message[]): boolean {
  if (source !== "words") return source === "unknown";
  const role = message === null ? undefined : messages[message]?.role;
  return role !== "system" && role !== "assistant";
}
