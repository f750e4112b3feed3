// SkyRL's chat template for Qwen3 ("accumulate thinking"): Qwen3-Instruct-2507's with the thinking switch, so it is append-only.

import type { ChatTemplate } from "../chat-template.ts";
import { SegmentWriter } from "../chat-template.ts";
import { qwen3Instruct2507 } from "./qwen3-instruct-2507.ts";
import { writeThinkingPrompt } from "./thinking.ts";

export const qwen3SkyrlAccThinking: ChatTemplate = (input) => {
  const segments = qwen3Instruct2507({ ...input, addGenerationPrompt: false });
  if (!input.addGenerationPrompt) return segments;
  const writer = new SegmentWriter();
  writeThinkingPrompt(writer, input.kwargs);
  return [...segments, ...writer.finish()];
};
