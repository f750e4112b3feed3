// The users simulated by a model, put together: which model, how it is called, which strategy it follows. The strategies
// and the way to a model are files of their own; nothing else is decided here.

import { ConfigurationError, type UserSource } from "../core/index.ts";
import type { HttpClient } from "../http/index.ts";
import { findApiKey, keyVariables, type KeyOptions } from "./api-key.ts";
import type { ChatModel } from "./chat-model.ts";
import { llmStrategy, type UserCompat } from "./llm-strategy.ts";
import { createModelCaller, type CallLimits } from "./model-caller.ts";
import { modelUsers, type UserStrategy } from "./model-user.ts";
import { userPool } from "./user-pool.ts";
import { verifyStrategy } from "./verify-strategy.ts";
import { chatBase, openAiChat } from "./openai-chat.ts";
import type { PriceTable } from "./prices.ts";
import { ownPrompts, type UserPrompts } from "./prompts.ts";
import { providerChat } from "./provider-chat.ts";
import type { LibraryLoader } from "./provider-library.ts";
import { reactStrategy } from "./react-strategy.ts";
import { reflectionStrategy } from "./reflection-strategy.ts";

export type ModelUserOptions = KeyOptions &
  CallLimits & {
    /** With `url`: as the server knows it. Without: `provider/model`, e.g. `anthropic/claude-haiku-4-5`. */
    readonly model?: string;
    /** An OpenAI-compatible server, e.g. `http://127.0.0.1:8000/v1`. */
    readonly url?: string;
    /** Instead of a prefix of `model`. `openai-compatible` goes with `url`. */
    readonly provider?: string;
    /** Sent with each request to `url`; their values are treated as secrets. */
    readonly headers?: Readonly<Record<string, string>>;
    /** Merged into each body sent to `url`; for a provider, settings of the library's `generateText`. Default: nothing. */
    readonly extraBody?: Readonly<Record<string, unknown>>;
    /** Replaces single texts. Default: our own. */
    readonly prompts?: Partial<UserPrompts>;
    /** Default "sane". "upstream" keeps the quirks of the τ-bench reference, for comparison with it. */
    readonly compat?: UserCompat;
    /** US dollars per million tokens, over the built-in list. */
    readonly prices?: PriceTable;
    /** A model of your own, instead of `model`, `url` and `provider`. */
    readonly chat?: ChatModel;
    /** Default: a pool of its own, as wide as `maxConcurrency`. */
    readonly http?: HttpClient;
    /** How the provider library is found and loaded. Default: packages beside ours. */
    readonly libraries?: LibraryLoader;
  };

/**
 * A user simulated by a model that answers each line with one call. Asynchronous throughout; usage is summed per line.
 * Throws a `ConfigurationError` for settings that cannot work, before any call.
 *
 * @example
 * llmUser({ model: "Qwen/Qwen3-8B", url: "http://127.0.0.1:8000/v1" });
 */
export function llmUser(options: ModelUserOptions): UserSource {
  return strategyUser(llmStrategy(options.compat ?? "sane"), options);
}

/** Thinks before each line, in the same call. Otherwise as {@link llmUser}. */
export function reactUser(options: ModelUserOptions): UserSource {
  return strategyUser(reactStrategy(options.compat ?? "sane"), options);
}

/** Has each line checked by a second call, and made again when refused: 2 to 6 calls a line. Otherwise as {@link llmUser}. */
export function verifyUser(options: ModelUserOptions): UserSource {
  return strategyUser(verifyStrategy(options.compat ?? "sane"), options);
}

/** Has each line checked, and after a refusal reflects on it: 2 or 3 calls a line. Otherwise as {@link llmUser}. */
export function reflectionUser(options: ModelUserOptions): UserSource {
  return strategyUser(reflectionStrategy(options.compat ?? "sane"), options);
}

function strategyUser(strategy: UserStrategy, options: ModelUserOptions): UserSource {
  const caller = createModelCaller(options.chat ?? chatModel(strategy.name, options), options);
  return modelUsers({ strategy, caller, prompts: { ...ownPrompts, ...options.prompts } });
}

function chatModel(user: string, options: ModelUserOptions): ChatModel {
  const { model = "", url, provider, prices } = options;
  if (model === "") {
    throw new ConfigurationError(
      `Cannot make user "${user}": it has no model; give "provider/model", or a url and the model's name on that server.`,
    );
  }
  if (url !== undefined && (provider === undefined || provider === "openai-compatible")) {
    const base = chatBase(url);
    const variable = keyVariables[new URL(base.origin).hostname];
    return openAiChat({
      base,
      model,
      apiKey: findApiKey(options, variable === undefined ? [] : [variable]),
      http: options.http ?? userPool(options.maxConcurrency),
      headers: options.headers ?? {},
      extraBody: options.extraBody ?? {},
      prices,
    });
  }
  return providerChat({ ...options, model, user });
}
