// The users simulated by a model, put together: which model, how it is called, which strategy it follows. The strategies
// and the way to a model are files of their own; nothing else is decided here.

import {
  type CallLimits,
  type ChatModel,
  type ChatModelOptions,
  createChatModel,
  createModelCaller,
} from "../chat-models/index.ts";
import type { UserSource } from "../core/index.ts";
import { llmStrategy, type UserCompat } from "./llm-strategy.ts";
import { modelUsers, type UserStrategy } from "./model-user.ts";
import { verifyStrategy } from "./verify-strategy.ts";
import { ownPrompts, type UserPrompts } from "./prompts.ts";
import { reactStrategy } from "./react-strategy.ts";
import { reflectionStrategy } from "./reflection-strategy.ts";

export type ModelUserOptions = ChatModelOptions &
  CallLimits & {
    /** Replaces single texts. Default: our own. */
    readonly prompts?: Partial<UserPrompts>;
    /** Default "sane". "upstream" keeps the quirks of the τ-bench reference, for comparison with it. */
    readonly compat?: UserCompat;
    /** A model of your own, instead of `model`, `url` and `provider`. */
    readonly chat?: ChatModel;
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
  const chat = options.chat ?? createChatModel({ part: "user", title: `user "${strategy.name}"` }, options);
  const caller = createModelCaller(chat, "user", options);
  return modelUsers({ strategy, caller, prompts: { ...ownPrompts, ...options.prompts } });
}
