// What a model family has to say to become a renderer: its template, its tokens, how its template treats history, and
// which parsers read its output. Data; `template-renderer.ts` does the work for all families.

import type { ReasoningParser, ToolCallParser } from "../parsers/index.ts";
import type { ChatTemplate } from "./chat-template.ts";

export type RendererFamily = {
  readonly name: string;
  readonly template: ChatTemplate;
  /** The token that opens a message and stands nowhere else in rendered text unless a message spells it out. */
  readonly startToken: string;
  /** The token that ends an action. */
  readonly endToken: string;
  /** What the template writes between the end token and the next message. */
  readonly closing: string;
  /** Tokens that stop sampling, the end token first; those the tokenizer lacks are left out. */
  readonly stopTokens: readonly string[];
  /** "append-only": adding messages never changes the text before them. "rewrites": it may. */
  readonly history: "append-only" | "rewrites";
  /** `null`: the family does not think. */
  readonly reasoningParser: ReasoningParser | null;
  readonly toolCallParser: ToolCallParser;
  /** True when the template knows `enable_thinking`. */
  readonly hasThinkingSwitch: boolean;
};
