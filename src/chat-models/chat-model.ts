// One chat completion: what simulated users and agents behind an API need from a model. Not an engine: nothing here is
// trained, so there are no tokens and no logprobs.

import type { AssistantMessage, ModelUsage, Tool, ToolMessage } from "../core/index.ts";

/** A message of words alone. */
export type ChatWords = { readonly role: "system" | "user" | "assistant"; readonly content: string };

/** What a model is shown; messages of an episode are such messages. */
export type ChatMessage = ChatWords | AssistantMessage | ToolMessage;

/** A tool call as the model wrote it; nothing in it is checked. */
export type ChatToolCall = {
  /** `null`: the server gave none. */
  readonly id: string | null;
  readonly name: string;
  /** JSON text, if the model was able to write it. */
  readonly argumentsText: string;
};

export type ChatReply = {
  /** May be empty. */
  readonly text: string;
  /** Thinking that the server reports apart from the words; `null` when it reports none. */
  readonly reasoning: string | null;
  readonly toolCalls: readonly ChatToolCall[];
  /** True when the reply ended because it grew too long. */
  readonly isCutOff: boolean;
  /** Of this call. */
  readonly usage: ModelUsage;
};

export type ChatOptions = {
  /** What the model may call. Default: none. */
  readonly tools?: readonly Tool[];
  /** For models that can sample by a seed. Default: their own randomness. */
  readonly seed?: number | null;
  readonly signal?: AbortSignal | undefined;
};

/**
 * Completes a chat, once.
 *
 * Guarantees: faults reject with an `AttributedError` whose code is a `ModelFailureCode`; no message of a fault holds a key.
 * Safe to call concurrently. Left out on purpose: retries, deadlines and limits (see `model-caller.ts`).
 */
export interface ChatModel {
  readonly name: string;
  complete(messages: readonly ChatMessage[], options?: ChatOptions): Promise<ChatReply>;
}

/** A whole reply of words alone. */
export function wordsReply(text: string, usage: ModelUsage): ChatReply {
  return { text, reasoning: null, toolCalls: [], isCutOff: false, usage };
}
