// Episodes for supervised training on messages: the conversation with its tool calls in their parts, and the tools. What a
// template makes of it is the trainer's business; who wants the very tokens that were sampled takes `sft-tokens`.

import { type ChatMessage, conversationOf } from "./chat-messages.ts";
import type { ExportOrigin } from "./export-origin.ts";
import type { Columns } from "./row-columns.ts";
import { episodeFacts, type EpisodeFacts } from "./row-facts.ts";

export type SftRow = {
  readonly messages: readonly ChatMessage[];
  /** JSON text of the list of tools that the template shows; `null` where none are shown, or none are known. */
  readonly tools: string | null;
  readonly reward: number | null;
  readonly metadata: EpisodeFacts;
};

export const sftColumns: Columns<SftRow> = [
  { name: "messages", type: "messages" },
  { name: "tools", type: "text" },
  { name: "reward", type: "double" },
  { name: "metadata", type: "json" },
];

export function toSftRow(origin: Omit<ExportOrigin, "groupMean" | "sampleCount">, tools: string | null): SftRow {
  const { opening, rest } = conversationOf(origin.episode);
  return {
    messages: [...opening, ...rest],
    tools,
    reward: origin.episode.reward,
    metadata: episodeFacts(origin),
  };
}
