// A chat model by its settings: an OpenAI-compatible address goes straight over our pool, everything else through the
// provider library.

import { ConfigurationError } from "../core/index.ts";
import type { HttpClient } from "../http/index.ts";
import { findHostKey, type KeyOptions } from "./api-key.ts";
import type { ChatModel, ChatSampling, PriceTable } from "./chat-model.ts";
import type { ModelRole } from "./model-failure.ts";
import { modelPool } from "./model-caller.ts";
import { chatBase, openAiChat } from "./openai-chat.ts";
import { providerChat } from "./provider-chat.ts";
import type { LibraryLoader } from "./provider-library.ts";

export type ChatModelOptions = KeyOptions & {
  /** With `url`: as the server knows it. Without: `provider/model`, e.g. `anthropic/claude-haiku-4-5`. */
  readonly model?: string;
  /** An OpenAI-compatible server, e.g. `http://127.0.0.1:8000/v1`. */
  readonly url?: string;
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
};

/** Throws a `ConfigurationError` for settings that cannot work, before any call. */
export function createChatModel(
  role: ModelRole,
  options: ChatModelOptions & { readonly maxConcurrency?: number },
): ChatModel {
  const { model = "", url, provider, prices } = options;
  if (model === "") {
    throw new ConfigurationError(
      `Cannot make ${role.title}: it has no model; give "provider/model", or a url and the model's name on that server.`,
    );
  }
  if (url !== undefined && (provider === undefined || provider === "openai-compatible")) {
    const base = chatBase(url, role.part);
    return openAiChat({
      part: role.part,
      base,
      model,
      apiKey: findHostKey(role.part, base, options),
      http: options.http ?? modelPool(role.part, options.maxConcurrency),
      headers: options.headers ?? {},
      extraBody: options.extraBody ?? {},
      sampling: options.sampling ?? {},
      prices,
    });
  }
  return providerChat({ ...options, model, role });
}
