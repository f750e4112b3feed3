// The policy of a rollout: an engine, whose tokens are recorded and trained, or an agent behind an API, which is evaluated. Cheap
// checks come first, models are loaded next, and servers are contacted last.

import { chatAgent } from "../chat-models/index.ts";
import {
  type AgentStrategy,
  ConfigurationError,
  type Engine,
  type EngineLoadSource,
  type EnvironmentSource,
  type SamplingParams,
  type UserSource,
  type ChatAgent,
  defaultSampling,
} from "../core/index.ts";
import type { CircuitStatus } from "../engines/guarded/index.ts";
import { defaultTimeouts, chatEpisodeRunner, type RunEpisode, episodeRunner } from "../rollout/index.ts";
import { chooseEngineName, connectEngine, engineOptions, type EngineName, ggufOptions } from "./choose-engine.ts";
import { type ChosenModel, chooseModel, withShippedModel } from "./choose-model.ts";
import type { Preset } from "./presets.ts";
import { type RolloutSettings, defaultEngineWait, concurrencyBounds } from "./rollout-settings.ts";
import { readKey } from "./secrets.ts";
import type { Surroundings } from "./surroundings.ts";

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

/** `null`: an engine samples. Throws a `ConfigurationError` for settings that do not go together. */
function chooseAgent(settings: RolloutSettings, env: Surroundings["env"]): ChatAgent | null {
  const { agentModel, agentUrl, agentApiKeyEnv, temperature, topP, maxNewTokens } = settings;
  if (agentModel === null) {
    if (agentUrl === null && agentApiKeyEnv === null) return null;
    throw new ConfigurationError(
      "Cannot run with an agent behind an API: no model is named; give --agent-model provider/model, or --agent-url <address> " +
        "and --agent-model <its name there>.",
    );
  }
  const unread = ofEngines.find((name) => settings[name] !== null);
  if (unread !== undefined) {
    throw new ConfigurationError(
      `Cannot use --${flagOf(unread)} with --agent-model: a model behind an API needs no engine; leave one of both out.`,
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

/** Everything else that an episode is played with. */
export type PolicyParts = {
  readonly settings: RolloutSettings;
  readonly environment: EnvironmentSource;
  readonly user: UserSource;
  readonly strategy: AgentStrategy;
  readonly preset: Preset | null;
  /** Stands between the loop and the engine, and bounds its calls in place of the loop. Default: nothing does. */
  readonly wrapEngine?: (engine: Engine) => Engine;
  /** Told when the first contact with a server has to wait. Default: nobody. */
  readonly tell?: (note: string) => void;
};

export type ConnectedPolicy = {
  /** Safe to show. */
  readonly address: string;
  readonly weightVersion: string | null;
  readonly runEpisode: RunEpisode;
  /** Who says how busy the servers are; `null`: nobody. */
  readonly load: EngineLoadSource | null;
  /** As of the engine; nothing where its weights never change. */
  reportWeightVersion(version: string): Promise<void>;
  /** Tells of servers that are left alone because they failed, and of their return. */
  watchCircuits(listener: (change: CircuitStatus) => void): void;
  close(): Promise<void>;
};

export type ChosenPolicy = {
  /** As in "engine sglang". */
  readonly title: string;
  /** `null`: an agent behind an API. */
  readonly engine: EngineName | null;
  /** Tokenizer and renderer, loaded once; `null`: an agent behind an API, which needs none. */
  loadModel(): Promise<ChosenModel | null>;
  /** Asks the server whether it is there. Rejects with a `ConfigurationError` when it is not. */
  connect(parts: PolicyParts, cancel: AbortSignal): Promise<ConnectedPolicy>;
};

/** Throws a `ConfigurationError` for settings that do not go together. `model`: one that is loaded already. */
export function choosePolicy(
  given: RolloutSettings,
  context: Surroundings,
  { model = null }: { readonly model?: ChosenModel | null } = {},
): ChosenPolicy {
  return agentPolicy(given, context) ?? enginePolicy(given, context, model);
}

function agentPolicy(given: RolloutSettings, { env, parts }: Surroundings): ChosenPolicy | null {
  const agent = parts?.agentModel ?? chooseAgent(given, env);
  if (agent === null) return null;
  return {
    title: `agent model "${agent.name}"`,
    engine: null,
    loadModel: () => Promise.resolve(null),
    connect: ({ settings, environment, user, strategy }) =>
      Promise.resolve({
        address: settings.agentUrl === null ? "its provider" : new URL(settings.agentUrl).origin,
        weightVersion: null,
        runEpisode: chatEpisodeRunner({ environment, user, strategy, agent }, playing(settings)),
        load: null,
        reportWeightVersion: () => Promise.resolve(),
        watchCircuits: () => undefined,
        close: () => Promise.resolve(),
      }),
  };
}

function enginePolicy(
  asked: RolloutSettings,
  { env, cwd, parts }: Surroundings,
  loaded: ChosenModel | null,
): ChosenPolicy {
  const own = parts?.engine ?? null;
  const engine = chooseEngineName(asked, own !== null);
  const given = withShippedModel(asked);
  if (engine === "expert" && (given.strategy === "act" || given.strategy === "react")) {
    throw new ConfigurationError(
      `Cannot run strategy "${given.strategy}" with engine "expert": it knows tools in the chat template's own form alone; use ` +
        "--strategy tool-calling, or a model.",
    );
  }
  const servers = engineOptions(given, env);
  let loading: Promise<ChosenModel> | null = loaded === null ? null : Promise.resolve(loaded);
  const loadModel = (): Promise<ChosenModel> => (loading ??= chooseModel(given, cwd));
  return {
    title: `engine ${engine}`,
    engine,
    loadModel,
    connect: async ({ settings, environment, user, strategy, preset, wrapEngine, tell = () => undefined }, cancel) => {
      const model = await loadModel();
      const listeners = new Set<(change: CircuitStatus) => void>();
      const connected = await connectEngine(engine, {
        own,
        servers,
        model,
        gguf: ggufOptions(given, cwd),
        expertNoise: settings.expertNoise,
        cancel,
        maxWaitMs: (settings.engineWait ?? defaultEngineWait) * 1000,
        waitsForUnreachable: settings.engineWait !== null,
        maxContextTokens: settings.maxContextTokens,
        sampling: Object.keys(settings.samplingExtra),
        tell,
        onCircuit: (change) => {
          for (const listener of listeners) listener(change);
        },
      });
      const { address, weightVersion } = connected;
      const run = (): RunEpisode => {
        if (preset !== null) {
          const apiKey = servers[0]?.apiKey ?? null;
          return preset.createPlayer({ settings, environment, user, model, address, apiKey, cwd });
        }
        const wrapped = wrapEngine?.(connected.engine) ?? connected.engine;
        const played = { environment, user, strategy, renderer: model.renderer, engine: wrapped };
        const engineAbort = { onAbort: settings.onEngineAbort, maxPauseMs: settings.maxPause * 1000 };
        const turnTimeoutMs = wrapEngine === undefined ? settings.turnTimeout * 1000 : Infinity;
        return episodeRunner(played, { ...playing(settings), turnTimeoutMs, engineAbort });
      };
      try {
        return {
          address,
          weightVersion,
          runEpisode: run(),
          load: loadSourceOf(connected.engine),
          reportWeightVersion: async (version) => connected.engine.reportWeightVersion?.(version),
          watchCircuits: (listener) => void listeners.add(listener),
          close: () => connected.close(),
        };
      } catch (error) {
        await connected.close();
        throw error;
      }
    },
  };
}

function loadSourceOf(engine: Partial<EngineLoadSource>): EngineLoadSource | null {
  return engine.load === undefined ? null : { load: (options) => engine.load?.(options) ?? Promise.resolve(null) };
}

function playing(settings: RolloutSettings) {
  return {
    sampling: samplingOf(settings),
    seedTurns: settings.seedTurns,
    timeouts: {
      environmentMs: settings.environmentTimeout * 1000,
      userMs: userTimeoutMs(settings),
      graderMs: settings.gradingTimeout * 1000,
    },
    maxResultCharacters: settings.maxResultCharacters,
    limits: {
      maxTurns: settings.maxTurns,
      maxSampledTokens: settings.maxSampledTokens,
      maxContextTokens: settings.maxContextTokens,
    },
  };
}

/** A person thinks as long as it takes. */
function userTimeoutMs({ userTimeout, user }: RolloutSettings): number {
  if (userTimeout !== null) return userTimeout * 1000;
  return user === "human" ? Infinity : defaultTimeouts.userMs;
}

export function samplingOf(settings: RolloutSettings): SamplingParams {
  const { temperature, topP, topK, minP, maxNewTokens, repetitionPenalty, samplingExtra } = settings;
  return { temperature, topP, topK, minP, maxNewTokens, repetitionPenalty, seed: null, extra: samplingExtra };
}
