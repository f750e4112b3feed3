// What a user simulated by a model needs from a model: one chat completion. Not an engine: nothing here is trained, so
// there are no tokens, logprobs or tools.

import type { UserUsage } from "../core/index.ts";

export type ChatMessage = { readonly role: "system" | "user" | "assistant"; readonly content: string };

export type ChatReply = {
  /** May be empty. */
  readonly text: string;
  /** Of this call. */
  readonly usage: UserUsage;
};

/**
 * Completes a chat, once.
 *
 * Guarantees: faults reject with an `AttributedError` at boundary "user" and a `UserFailureCode`; no message of a fault
 * holds a key. Safe to call concurrently. Left out on purpose: retries, deadlines and limits (see `model-caller.ts`).
 */
export interface ChatModel {
  readonly name: string;
  complete(
    messages: readonly ChatMessage[],
    options?: { readonly signal?: AbortSignal | undefined },
  ): Promise<ChatReply>;
}
