// Tool calls of Trinity: Qwen's, after every thinking tag is deleted, inside texts too; a call in thinking counts.

import { createToolCallParser } from "../tool-call-parser.ts";
import { qwen25Format } from "./qwen25.ts";

const withoutThinkTags = (text: string): string => text.replaceAll("<think>", "").replaceAll("</think>", "");

export const trinity = createToolCallParser({
  name: "trinity",
  markers: qwen25Format.markers,
  hints: { ...qwen25Format.hints, wordsEnd: [...qwen25Format.hints.wordsEnd, "<think>", "</think>"] },
  hasToolCall: (text) => qwen25Format.hasToolCall(withoutThinkTags(text)),
  detect: (text, scan) => qwen25Format.detect(withoutThinkTags(text), scan),
});
