// One chat completion: what simulated users and agents behind an API need from a model. Not an engine: nothing here is
// trained, so there are no tokens and no logprobs.

import {
  type AssistantMessage,
  defaultSampling,
  type ModelUsage,
  type SamplingParams,
  type Tool,
  type ToolMessage,
  addUsage,
  freeUsage,
} from "../core/index.ts";
import type { HttpClient } from "../http/index.ts";
import type { KeyOptions } from "./api-key.ts";
import type { ModelRole } from "./model-failure.ts";

/** US dollars per million tokens. */
export type Price = { readonly input: number; readonly output: number };

/** By model name, without the provider and without a date at the end. */
export type PriceTable = Readonly<Record<string, Price>>;

/** List prices of late 2025. */
export const listPrices: PriceTable = Object.freeze({
  "gpt-4o": { input: 2.5, output: 10 },
  "gpt-4o-2024-05-13": { input: 5, output: 15 },
  "gpt-4o-mini": { input: 0.15, output: 0.6 },
  "gpt-4.1": { input: 2, output: 8 },
  "gpt-4.1-mini": { input: 0.4, output: 1.6 },
  "gpt-4.1-nano": { input: 0.1, output: 0.4 },
  "gpt-5": { input: 1.25, output: 10 },
  "gpt-5-mini": { input: 0.25, output: 2 },
  "gpt-5-nano": { input: 0.05, output: 0.4 },
  o3: { input: 2, output: 8 },
  "o4-mini": { input: 1.1, output: 4.4 },
  "claude-3-5-haiku": { input: 0.8, output: 4 },
  "claude-haiku-4-5": { input: 1, output: 5 },
  "claude-sonnet-4": { input: 3, output: 15 },
  "claude-sonnet-4-5": { input: 3, output: 15 },
  "claude-opus-4-1": { input: 15, output: 75 },
  "gemini-2.0-flash": { input: 0.1, output: 0.4 },
  "gemini-2.5-flash-lite": { input: 0.1, output: 0.4 },
  "gemini-2.5-flash": { input: 0.3, output: 2.5 },
  "gemini-2.5-pro": { input: 1.25, output: 10 },
});

/**
 * The price of a model; `null` when the table does not have it. `openai/gpt-4o-2024-08-06` is looked up as it is, then
 * without the provider, then without the date.
 */
export function priceOf(model: string, prices: PriceTable = listPrices): Price | null {
  const bare = model.slice(model.lastIndexOf("/") + 1);
  for (const name of [model, bare, bare.replace(/-(\d{4}-\d{2}-\d{2}|\d{8})$/, "")]) {
    const price = Object.hasOwn(prices, name) ? prices[name] : undefined;
    if (price !== undefined) return price;
  }
  return null;
}

/** Usage of one call with its cost. Tokens that the server did not report make the cost unknown. */
export function usageOfCall(
  tokens: { readonly input: number | null; readonly output: number | null },
  price: Price | null,
): ModelUsage {
  const { input, output } = tokens;
  const cost =
    price === null || input === null || output === null
      ? null
      : (input * price.input + output * price.output) / 1_000_000;
  return { modelCalls: 1, inputTokens: input ?? 0, outputTokens: output ?? 0, cost };
}

export class UsageMeter {
  #total: ModelUsage = freeUsage;

  readonly add = (usage: ModelUsage): void => {
    this.#total = addUsage(this.#total, usage);
  };

  total(): ModelUsage {
    return this.#total;
  }
}

export type ChatSampling = {
  readonly temperature?: number;
  readonly topP?: number;
  /** Of one reply. */
  readonly maxNewTokens?: number;
  /** Strings before which a reply ends. */
  readonly stop?: readonly string[];
};

/** The parameters that differ from the default sampling of a policy: a model behind an API samples as its server does by itself. */
export function chatSampling({
  temperature,
  topP,
  maxNewTokens,
}: Pick<SamplingParams, "temperature" | "topP" | "maxNewTokens">): ChatSampling {
  return {
    ...(temperature === defaultSampling.temperature ? {} : { temperature }),
    ...(topP === defaultSampling.topP ? {} : { topP }),
    ...(maxNewTokens === defaultSampling.maxNewTokens || maxNewTokens === null ? {} : { maxNewTokens }),
  };
}

/** A message of text alone. */
export type ChatText = { readonly role: "system" | "user" | "assistant"; readonly content: string };

/** A message to a model; messages of an episode are such messages. */
export type ChatMessage = ChatText | AssistantMessage | ToolMessage;

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
  /** Thinking that the server reports apart from the text; `null` when it reports none. */
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
  /**
   * JSON Schema that the text of the reply is to follow, with a name; a server that knows no `response_format` refuses it, and
   * providers of the library never see it, so the text must be checked in any case. Default: any text.
   */
  readonly format?: { readonly name: string; readonly schema: object } | null;
  /** For models that can sample by a seed. Default: their own randomness. */
  readonly seed?: number | null;
  /** Sampling of this call, over that of the model. Default: the model's. */
  readonly sampling?: ChatSampling;
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

/** A whole reply of text alone. */
export function textReply(text: string, usage: ModelUsage): ChatReply {
  return { text, reasoning: null, toolCalls: [], isCutOff: false, usage };
}

/** How optional packages are found and loaded. */
export type LibraryLoader = {
  isInstalled(name: string): boolean;
  load(name: string): Promise<unknown>;
};

export type ChatModelOptions = KeyOptions & {
  /** With `url`: as the server knows it. Without: `provider/model`, e.g. `anthropic/claude-haiku-4-5`. */
  readonly model?: string;
  /** An OpenAI-compatible server, e.g. `http://127.0.0.1:8000/v1`. */
  readonly url?: string;
  /** Value of the `Authorization` header, in place of a key; shown nowhere. Default `null`: none. */
  readonly authorization?: string | null | undefined;
  /** Instead of a prefix of `model`. `openai-compatible` goes with `url`. */
  readonly provider?: string;
  /** Sent with each request to `url`; their values are treated as secrets. */
  readonly headers?: Readonly<Record<string, string>>;
  /** How it samples. Default: as the server does by itself. */
  readonly sampling?: ChatSampling;
  /** Merged into each body sent to `url`; for a provider, settings of the library's `generateText`. Default: nothing. */
  readonly extraBody?: Readonly<Record<string, unknown>>;
  /** US dollars per million tokens, over the built-in list. */
  readonly prices?: PriceTable;
  /** Default: a pool of its own, as wide as `maxConcurrency`. */
  readonly http?: HttpClient;
  /** How the provider library is found and loaded. Default: packages beside ours. */
  readonly libraries?: LibraryLoader;
  /** Calls at once, of its own pool. Default 256. */
  readonly maxConcurrency?: number;
};

/** Settings that name a model, for its role. */
export type NamedModelOptions = ChatModelOptions & { readonly model: string; readonly role: ModelRole };
