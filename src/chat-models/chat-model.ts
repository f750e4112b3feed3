// One chat completion: the model interface for simulated users and for agents behind an API. It is
// not an engine: nothing here is trained, so it has neither tokens nor logprobs.

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

/** Price in US dollars per million tokens. */
export type Price = { readonly input: number; readonly output: number };

/** Prices by model name, without the provider and without a date at the end. */
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
 * The price of a model; `null` if it is not in the table. `openai/gpt-4o-2024-08-06` is looked up
 * unchanged, then without the provider, then without the date.
 */
export function priceOf(model: string, prices: PriceTable = listPrices): Price | null {
  const bare = model.slice(model.lastIndexOf("/") + 1);
  for (const name of [model, bare, bare.replace(/-(\d{4}-\d{2}-\d{2}|\d{8})$/, "")]) {
    const price = Object.hasOwn(prices, name) ? prices[name] : undefined;
    if (price !== undefined) return price;
  }
  return null;
}

/** Usage of one call with its cost. The cost is unknown if the server did not report the tokens. */
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
  /** Maximum number of tokens of one reply. */
  readonly maxNewTokens?: number;
  /** Stop strings; a reply ends before the first one. */
  readonly stop?: readonly string[];
};

/**
 * The parameters that differ from a policy's default sampling: for a model behind an API, the
 * server's own defaults apply.
 */
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

/** A message that has only text. */
export type ChatText = { readonly role: "system" | "user" | "assistant"; readonly content: string };

/** A message to a model; any message of an episode is one. */
export type ChatMessage = ChatText | AssistantMessage | ToolMessage;

/** A tool call as written by the model, unchecked. */
export type ChatToolCall = {
  /** `null` if the server sent none. */
  readonly id: string | null;
  readonly name: string;
  /** JSON text, if the model wrote valid JSON. */
  readonly argumentsText: string;
};

export type ChatReply = {
  /** Text of the reply; may be empty. */
  readonly text: string;
  /** Reasoning that the server reports separately; `null` if it reports none. */
  readonly reasoning: string | null;
  readonly toolCalls: readonly ChatToolCall[];
  /** True if the reply ended because it reached the length limit. */
  readonly isTruncated: boolean;
  /** Usage of this call. */
  readonly usage: ModelUsage;
};

export type ChatOptions = {
  /** Tools that the model may call. Default: none. */
  readonly tools?: readonly Tool[];
  /**
   * JSON Schema for the text of the reply, with a name. A server without support for
   * `response_format` refuses it, and providers of the library never receive it, so the text must
   * be checked in any case. Default: any text.
   */
  readonly format?: { readonly name: string; readonly schema: object } | null;
  /** Seed for models that support one. Default: their own randomness. */
  readonly seed?: number | null;
  /** Sampling of this call; overrides that of the model. Default: the model's. */
  readonly sampling?: ChatSampling;
  readonly signal?: AbortSignal | undefined;
};

/**
 * Completes a chat, once.
 *
 * Guarantees: faults reject with an `AttributedError` whose code is a `ModelFailureCode`; its
 * message never contains a key. Safe to call concurrently. Retries, deadlines and limits are
 * omitted on purpose (see `model-caller.ts`).
 */
export interface ChatModel {
  readonly name: string;
  complete(messages: readonly ChatMessage[], options?: ChatOptions): Promise<ChatReply>;
}

/** A complete reply that has only text. */
export function textReply(text: string, usage: ModelUsage): ChatReply {
  return { text, reasoning: null, toolCalls: [], isTruncated: false, usage };
}

/** Finds and loads optional packages. */
export type LibraryLoader = {
  isInstalled(name: string): boolean;
  load(name: string): Promise<unknown>;
};

export type ChatModelOptions = KeyOptions & {
  /**
   * Model name: with `url`, the name on that server; otherwise `provider/model`, e.g.
   * `anthropic/claude-haiku-4-5`.
   */
  readonly model?: string;
  /** Address of an OpenAI-compatible server, e.g. `http://127.0.0.1:8000/v1`. */
  readonly url?: string;
  /** Value of the `Authorization` header, instead of a key; never shown. Default `null`: none. */
  readonly authorization?: string | null | undefined;
  /** Provider, instead of a prefix of `model`. `openai-compatible` requires `url`. */
  readonly provider?: string;
  /** Headers of each request to `url`; their values are treated as secrets. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Sampling parameters. Default: those of the server. */
  readonly sampling?: ChatSampling;
  /**
   * Fields merged into each body sent to `url`; for a provider, settings of the library's
   * `generateText`. Default: nothing.
   */
  readonly extraBody?: Readonly<Record<string, unknown>>;
  /** US dollars per million tokens; these override the built-in list. */
  readonly prices?: PriceTable;
  /** HTTP client. Default: the model's own pool with `maxConcurrency` connections. */
  readonly http?: HttpClient;
  /** Finds and loads the provider library. Default: the packages installed next to this one. */
  readonly libraries?: LibraryLoader;
  /** Maximum number of concurrent calls in the model's own pool. Default 256. */
  readonly maxConcurrency?: number;
};

/** Settings that name a model, and its role. */
export type NamedModelOptions = ChatModelOptions & { readonly model: string; readonly role: ModelRole };
