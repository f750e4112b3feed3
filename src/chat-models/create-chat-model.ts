// Creates a chat model from its settings: an OpenAI-compatible address is called directly over our
// pool, everything else through the provider library.

import { ConfigurationError } from "../core/index.ts";
import type { ChatModel, ChatModelOptions } from "./chat-model.ts";
import type { ModelRole } from "./model-failure.ts";
import { openAiChat } from "./openai-chat.ts";
import { providerChat } from "./provider-chat.ts";

/** Throws a `ConfigurationError` for invalid settings, before any call. */
export function createChatModel(role: ModelRole, options: ChatModelOptions): ChatModel {
  const { model = "", url, provider } = options;
  if (model === "") {
    throw new ConfigurationError(
      `Cannot create ${role.title}: it has no model; use "provider/model", or a url and the model's name on that server.`,
    );
  }
  const named = { ...options, model, role };
  const isCompatible = url !== undefined && (provider === undefined || provider === "openai-compatible");
  return isCompatible ? openAiChat({ ...named, url }) : providerChat(named);
}
