import type { Attempt } from "./episode.ts";
import type { Message } from "./message.ts";
import type { ModelUsage } from "./model-usage.ts";
import type { ParsedAction } from "./renderer.ts";
import type { Tool } from "./tool.ts";

/** What the agent is shown: the whole conversation so far. */
export type ChatRequest = {
  readonly messages: readonly Message[];
  /** None for strategies that describe them in words. */
  readonly tools: readonly Tool[];
  /** Numbers the ids of calls that the model leaves without one. */
  readonly turn: number;
  /** For models that can sample by a seed; `null`: their own randomness. */
  readonly seed: number | null;
};

export type ChatAnswer = {
  /** As a renderer would have read it. */
  readonly action: ParsedAction;
  /** Of all attempts. */
  readonly usage: ModelUsage;
  /** The failed ones. */
  readonly attempts: readonly Attempt[];
};

/**
 * An agent behind an API, which talks messages instead of tokens. For evaluation only: what it sampled is not known, so
 * nothing of it can be trained.
 *
 * Guarantees: whatever the model says is an answer; faults of the call reject with an `AttributedError` at boundary "engine",
 * code "context-length" for a conversation that grew too long. Asynchronous, safe to call concurrently. Retries, deadlines
 * and limits are its own: they belong to a provider and not to an episode.
 */
export interface ChatAgent {
  readonly name: string;
  reply(request: ChatRequest, options?: { readonly signal?: AbortSignal }): Promise<ChatAnswer>;
}
