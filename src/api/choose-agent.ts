// The agent behind an API, for evaluation: no server of ours, no tokenizer, no samples. Only what a user set is sent, since
// providers refuse parameters that some models do not have.

import { chatAgent } from "../chat-models/index.ts";
import { type ChatAgent, ConfigurationError, defaultSampling } from "../core/index.ts";
import type { Surroundings } from "./surroundings.ts";
import { type RolloutSettings, concurrencyBounds } from "./rollout-settings.ts";
import { readKey } from "./secrets.ts";

/** Settings of an engine, which nothing would read; by their flags. */
const ofEngines = [
  "engine",
  "gguf",
  "url",
  "host",
  "port",
  "apiKeyEnv",
  "model",
  "renderer",
  "thinking",
  "preset",
] as const;
/** Ways of sampling that not every provider has a name for. */
const ofSampling = ["topK", "minP", "repetitionPenalty"] as const;

/** `null`: an engine plays. Throws a `ConfigurationError` for settings that do not go together. */
export function chooseAgent(settings: RolloutSettings, env: Surroundings["env"]): ChatAgent | null {
  const { agentModel, agentUrl, agentApiKeyEnv, temperature, topP, maxNewTokens } = settings;
  if (agentModel === null) {
    if (agentUrl === null && agentApiKeyEnv === null) return null;
    throw new ConfigurationError(
      "Cannot play with an agent behind an API: no model is named; give --agent-model provider/model, or --agent-url <address> " +
        "and --agent-model <its name there>.",
    );
  }
  const unread = ofEngines.find((name) => settings[name] !== null);
  if (unread !== undefined) {
    throw new ConfigurationError(
      `Cannot use --${flagOf(unread)} with --agent-model: a model behind an API plays without an engine; leave one of both out.`,
    );
  }
  const unsent = ofSampling.find((name) => settings[name] !== defaultSampling[name]);
  if (unsent !== undefined) {
    throw new ConfigurationError(
      `Cannot use --${flagOf(unsent)} with --agent-model: not every provider knows it; give it in --sampling-extra by the provider's name.`,
    );
  }
  const apiKey = readKey(env, agentApiKeyEnv, "--agent-api-key-env");
  return chatAgent({
    model: agentModel,
    variables: env,
    ...(agentUrl === null ? {} : { url: agentUrl }),
    ...(apiKey === null ? {} : { apiKey }),
    sampling: {
      ...(temperature === defaultSampling.temperature ? {} : { temperature }),
      ...(topP === defaultSampling.topP ? {} : { topP }),
      ...(maxNewTokens === defaultSampling.maxNewTokens ? {} : { maxNewTokens }),
    },
    extraBody: settings.samplingExtra,
    timeoutMs: settings.turnTimeout * 1000,
    maxConcurrency: concurrencyBounds(settings.concurrency).ceiling,
  });
}

function flagOf(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
