// What a model family has to say to become a renderer: its template, its tokens, how its template treats history, and
// which parsers read its output. Data; `template-renderer.ts` does the work for all families.

import type { Message } from "../core/index.ts";
import type { JsonObject, JsonValue } from "../python-semantics/json/index.ts";
import type { ReasoningParser, ToolCallParser } from "../parsers/index.ts";
import type { ChatTemplate } from "./chat-template.ts";
import { wireMessage } from "./wire-message.ts";

export type RendererFamily = {
  readonly name: string;
  readonly template: ChatTemplate;
  /** A token that opens messages and stands nowhere else in rendered text unless a message spells it out. */
  readonly startToken: string;
  /** The token that ends an action. `null`: none of its own; an action ends with the token that opens the next message. */
  readonly endToken: string | null;
  /** Further tokens that end an action and after which nothing is missing. */
  readonly otherEnds: readonly string[];
  /** What the template writes between the end token and the next message. */
  readonly closing: string;
  /** Tokens that stop sampling, the end token first; those the tokenizer lacks are left out. */
  readonly stopTokens: readonly string[];
  /**
   * "append-only": adding messages never changes the text before them, and an action is written back as it was sampled.
   * "rewrites": one of both may fail. "unproven": nothing is known, so every bridge compares whole renderings and refuses
   * where the text before has changed.
   */
  readonly history: "append-only" | "rewrites" | "unproven";
  /** `null`: the family does not think. */
  readonly reasoningParser: ReasoningParser | null;
  readonly toolCallParser: ToolCallParser;
  /** The template's variable that turns thinking on and off; `null`: there is none. */
  readonly thinkingVariable: "enable_thinking" | "thinking" | null;
  /** What the template is told of the tokenizer: `bos_token`, ... */
  readonly specialTokens: JsonObject;
  /** What the template is given as `tools` when there are none: an empty list where it cannot do without. */
  readonly noTools: JsonValue;
  /** Messages, one for one, as the template can read them: for templates that ask what stands around a message. */
  readonly restate: (messages: readonly Message[]) => readonly Message[];
  /** Our message, restated, in the shape that the template reads. */
  readonly wire: (message: Message) => JsonObject;
  /**
   * For parsers that must see a whole message: what the prompt has opened it with. They then see the stop token too. `null`:
   * they see what was sampled, without the stop token.
   */
  readonly actionFrame: string | null;
  /**
   * A history as short as can be that ends with an assistant message and after which the template writes new messages as
   * it does after the given one.
   */
  readonly standIn: (history: readonly Message[]) => readonly Message[];
};

/** A whole list of messages in the shape that the family's template reads. */
export function wireMessages(family: RendererFamily, messages: readonly Message[]): readonly JsonObject[] {
  return family.restate(messages).map((message) => family.wire(message));
}

const shortestHistory: readonly [Message, Message] = [
  { role: "user", content: "?" },
  { role: "assistant", content: "!", reasoning: null, toolCalls: [] },
];

/** What holds for most families: templates ask only what came right before a message. */
export const familyDefaults = {
  thinkingVariable: null,
  specialTokens: new Map(),
  noTools: null,
  otherEnds: [],
  restate: (messages) => messages,
  wire: wireMessage,
  actionFrame: null,
  standIn: () => shortestHistory,
} as const satisfies Partial<RendererFamily>;
