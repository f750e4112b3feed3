// The policy of a rollout: an engine, whose tokens are recorded and trained, or an agent behind an API, which is evaluated. Cheap
// checks come first, models are loaded next, and servers are contacted last.

import type { ApiModel, ApiModelOptions, ChatAgentOptions } from "../chat-models/index.ts";
import {
  type AgentStrategy,
  ConfigurationError,
  type Engine,
  type EnvironmentSource,
  type Grading,
  type SamplingParams,
  type UserSource,
  type ChatAgent,
  defaultSampling,
} from "../core/index.ts";
import type { CircuitStatus } from "../engines/guarded/index.ts";
import type { AgentPrograms } from "../gateway/index.ts";
import { showAddress } from "../http/base-url.ts";
import {
  chatEpisodeRunner,
  defaultTimeouts,
  episodeRunner,
  type RunEpisode,
  type SamplingMaskSink,
} from "../rollout/loop.ts";
import type { RoutedExpertsSink } from "../rollout/index.ts";
import { engineOptions } from "./engines.ts";
import { chooseEngineName, connectEngine, serverOptions } from "./choose-engine.ts";
import type { ChosenModel } from "./choose-model.ts";
import type { Preset } from "./resolve-settings.ts";
import { agentProgram, concurrencyBounds, type EngineName, type RolloutSettings } from "./rollout-settings.ts";
import { readAccess } from "./secrets.ts";
import type { ConnectedEngine, ServerOptions } from "../parts/engine.ts";
import { givenOptions, keyOf, milliseconds } from "../parts/setting.ts";
import type { Surroundings } from "./surroundings.ts";

/** Settings about engines besides their options, none of which has an effect on a model behind an API. */
const ofEngines = ["engine", "model", "renderer", "thinking", "preset"] as const;
/** Sampling parameters that some providers do not support. */
const ofSampling = ["topK", "minP", "repetitionPenalty"] as const;

/**
 * Options of a model behind an API; `null` if none is named. Throws a `ConfigurationError` for
 * conflicting settings.
 */
async function agentModelOptions(
  settings: RolloutSettings,
  context: Surroundings,
): Promise<(ApiModelOptions & ChatAgentOptions) | null> {
  const { env, cwd } = context;
  const { agentModel, agentUrl, agentApiKeyEnv, agentAuthorizationEnv } = settings;
  if (agentModel === null && agentUrl === null) {
    if ((agentApiKeyEnv ?? agentAuthorizationEnv) === null) return null;
    throw new ConfigurationError(
      "Cannot run with an agent behind an API: no model is named; pass --agent-model provider/model, or --agent-url <address> " +
        "and --agent-model <its name there>.",
    );
  }
  const unread =
    ofEngines.find((name) => settings[name] !== null) ??
    givenOptions(engineOptions, settings)[0] ??
    (Object.keys(settings.templateKwargs).length > 0 ? ("templateKwargs" as const) : undefined);
  if (unread !== undefined) {
    throw new ConfigurationError(
      `Cannot use --${keyOf(unread)} with --${agentModel === null ? "agent-url" : "agent-model"}: a model behind an API uses no engine; remove one of them.`,
    );
  }
  const unsent = ofSampling.find((name) => settings[name] !== defaultSampling[name]);
  if (unsent !== undefined) {
    throw new ConfigurationError(
      `Cannot use --${keyOf(unsent)} with --agent-model: not every provider supports it; pass it in --sampling-extra under the provider's name for it.`,
    );
  }
  const { apiKey, authorization } = readAccess("agent", settings, env);
  const { pricesOf, ratesOf } = await import("./budget.ts");
  return {
    variables: env,
    prices: pricesOf(settings, cwd),
    ...ratesOf(settings, context),
    ...(agentModel === null ? {} : { model: agentModel }),
    ...(agentUrl === null ? {} : { url: agentUrl }),
    ...(apiKey === null ? {} : { apiKey }),
    authorization,
    extraBody: settings.samplingExtra,
    timeoutMs: milliseconds(settings.turnTimeout),
    maxConcurrency: concurrencyBounds(settings.concurrency).ceiling,
  };
}

/** Source of the turns of episodes. Nothing is contacted yet. */
export type ChosenPolicy = {
  /** Name for people, such as "engine sglang". */
  readonly title: string;
  /** `null` for a model behind an API; "none" if programs call models of their own. */
  readonly engine: EngineName | null;
  /** Runs the episodes of the built-in loop; `null` if an engine does, or programs do. */
  readonly agent: ChatAgent | null;
  /** Answers the calls of programs; `null` if an engine does, or nothing. */
  readonly apiModel: ApiModel | null;
  readonly servers: readonly ServerOptions[];
};

/**
 * `hasPrograms`: outside programs run the episodes. Throws a `ConfigurationError` for conflicting
 * settings, and for programs without a named model: a script in its place would say nothing about
 * them.
 */
export async function choosePolicy(
  settings: RolloutSettings,
  surroundings: Surroundings,
  hasPrograms: boolean,
): Promise<ChosenPolicy> {
  const { env, parts } = surroundings;
  if (agentProgram(settings) !== null) (await import("./choose-programs.ts")).checkAgentProgram(settings);
  const nothing = { engine: null, agent: null, apiModel: null, servers: [] };
  const options = parts?.agentModel === undefined ? await agentModelOptions(settings, surroundings) : null;
  if (hasPrograms && (options !== null || parts?.agentModel !== undefined)) {
    const { apiModel: makeApiModel, apiModelOf } = await import("../chat-models/index.ts");
    const apiModel = options === null ? apiModelOf(parts!.agentModel!) : makeApiModel(options);
    return { ...nothing, title: `agent model "${apiModel.name}"`, apiModel };
  }
  if (options !== null && options.model === undefined) {
    throw new ConfigurationError(
      "Cannot run with an agent behind an API: no model is named; pass --agent-model <its name at --agent-url>.",
    );
  }
  const agent = parts?.agentModel ?? (options === null ? null : await agentBehindApi(options, settings));
  if (agent !== null) return { ...nothing, title: `agent model "${agent.name}"`, agent };
  const isOwn = parts?.engine !== undefined;
  if (hasPrograms && !isOwn && isUnnamed(settings)) throw (await import("./choose-programs.ts")).unnamedModel();
  const engine = chooseEngineName(settings, isOwn);
  if (engine === "none") {
    if (hasPrograms) return { ...nothing, title: "no model of ours", engine };
    throw new ConfigurationError(
      'Cannot use engine "none": nothing would answer; it is for programs with a model of their own (--agent-command, gateway).',
    );
  }
  const title = `engine ${engine}${hasPrograms && engine === "expert" ? " (a script, not a model)" : ""}`;
  return { ...nothing, title, engine, servers: serverOptions(settings, env) };
}

async function agentBehindApi(
  options: ApiModelOptions & ChatAgentOptions,
  settings: RolloutSettings,
): Promise<ChatAgent> {
  const { chatAgent, chatSampling } = await import("../chat-models/index.ts");
  return chatAgent({ ...options, sampling: chatSampling(settings) });
}

/** True if nothing in the settings is about an engine. */
function isUnnamed(settings: RolloutSettings): boolean {
  return ofEngines.every((name) => settings[name] === null) && givenOptions(engineOptions, settings).length === 0;
}

/** Hooks for connecting a policy. */
export type PolicyOptions = {
  /** Wraps the engine for the loop, and bounds its calls in place of the loop. Default: not wrapped. */
  readonly wrapEngine?: (engine: Engine) => Engine;
  /** Called when the first contact with a server has to wait. Default: not called. */
  readonly onNotice?: (message: string) => void;
  /**
   * Called when a server is skipped because it failed, and when it is used again. Default: not
   * called.
   */
  readonly onCircuit?: (change: CircuitStatus) => void;
  /**
   * Sink for the experts of a mixture-of-experts model. Default: the setting `routedExperts` is
   * refused.
   */
  readonly expertsFile?: Pick<RoutedExpertsSink, "write"> | null;
  /** Sink for the ids that sampling keeps. Default: the setting `samplingMask` is refused. */
  readonly masksFile?: SamplingMaskSink | null;
};

/** All other parts that an episode is run with. */
type EpisodeParts = {
  readonly settings: RolloutSettings;
  readonly environment: EnvironmentSource;
  readonly user: UserSource;
  readonly strategy: AgentStrategy;
  /** `null` for an agent behind an API, or programs with models of their own. */
  readonly model: ChosenModel | null;
  readonly grading: Grading | null;
  readonly preset: Preset | null;
  readonly redact: (text: string) => string;
};

export type ConnectedPolicy = {
  /** Address of the policy, safe to show. */
  readonly address: string;
  readonly weightVersion: string | null;
  /** `null` for an agent behind an API. */
  readonly engine: ConnectedEngine["engine"] | null;
  readonly runEpisode: RunEpisode;
  close(): Promise<void>;
};

/** Contacts the server. Rejects with a `ConfigurationError` when it does not answer. */
export async function connectPolicy(
  { engine: name, agent, apiModel, servers }: ChosenPolicy,
  { settings, environment, user, strategy, model, grading: chosen, preset, redact }: EpisodeParts,
  options: PolicyOptions & { readonly context: Surroundings; readonly cancel: AbortSignal },
): Promise<ConnectedPolicy> {
  const grading = chosen ?? undefined;
  const sink = expertsSink({ name, settings, preset }, options.expertsFile ?? null);
  const routedExperts = sink === null ? null : (await import("../rollout/index.ts")).keepExperts(sink);
  const masks = settings.samplingMask ? await import("./choose-masks.ts") : null;
  const samplingMasks = masks?.masksSink({ name, settings, preset }, options.masksFile ?? null) ?? null;
  if (agent !== null) {
    return {
      address: agentAddress(settings),
      weightVersion: null,
      engine: null,
      close: () => Promise.resolve(),
      runEpisode: chatEpisodeRunner({ environment, user, strategy, agent, grading }, episodeOptions(settings)),
    };
  }
  const { wrapEngine, onNotice = () => undefined, onCircuit = () => undefined, context, cancel } = options;
  const { cwd, parts } = context;
  const own = parts?.engine ?? null;
  const openPrograms = async (): Promise<AgentPrograms> =>
    (await import("./choose-programs.ts")).openPrograms({ settings, environment, user, redact }, context);
  if (name === null || name === "none") {
    const programs = agentProgram(settings) === null ? null : await openPrograms();
    return {
      address: apiModel === null ? "the programs themselves" : agentAddress(settings),
      weightVersion: null,
      engine: null,
      close: async () => programs?.close(),
      runEpisode: programs?.runner({ type: "api", model: apiModel }, programOptions(settings)) ?? noPrograms,
    };
  }
  if (model === null) throw new TypeError("A policy with an engine has a model.");
  if (name === "expert" && agentProgram(settings) !== null) onNotice(expertNotice);
  const connected = await connectEngine(name, { settings, own, servers, model, cwd, cancel, onNotice, onCircuit });
  let programs: AgentPrograms | null = null;
  const close = async (): Promise<void> => {
    await programs?.close();
    await connected.close();
  };
  const runner = async (): Promise<RunEpisode> => {
    if (preset !== null) {
      const { url = connected.address, apiKey = null, authorization = null } = servers[0] ?? {};
      return preset.createRunner({ settings, environment, user, model, url, apiKey, authorization, cwd });
    }
    masks?.refuseMasks(connected.engine, samplingOf(settings));
    const engine = wrapEngine?.(connected.engine) ?? connected.engine;
    const engineAbort = { onAbort: settings.onEngineAbort, maxPauseMs: milliseconds(settings.maxPause) };
    const turnTimeoutMs = wrapEngine === undefined ? milliseconds(settings.turnTimeout) : Infinity;
    if (agentProgram(settings) !== null) {
      programs = await openPrograms();
      const { episode, ...settled } = programOptions(settings);
      const answers = { type: "policy", engine, renderer: model.renderer } as const;
      return programs.runner(answers, { ...settled, episode: { ...episode, turnTimeoutMs, engineAbort } });
    }
    return episodeRunner(
      { environment, user, strategy, renderer: model.renderer, engine, grading },
      { ...episodeOptions(settings), turnTimeoutMs, engineAbort, routedExperts, samplingMasks },
    );
  };
  try {
    return { ...connected, runEpisode: await holding(await runner(), connected.engine), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Episodes beyond those whose state the engine keeps wait before they begin. */
async function holding(runEpisode: RunEpisode, engine: ConnectedEngine["engine"]): Promise<RunEpisode> {
  const { mostEpisodes, endEpisode } = engine;
  if (mostEpisodes === undefined || endEpisode === undefined) return runEpisode;
  const { holdEpisodes } = await import("./hold-episodes.ts");
  return holdEpisodes(runEpisode, { mostEpisodes, endEpisode: (key) => endEpisode.call(engine, key) });
}

/** The notice of every run in which the expert answers a program. */
export const expertNotice =
  'Note: engine "expert" is a script that knows the bookshop; what it answers says nothing about the model that a program names.';

function agentAddress({ agentUrl }: Pick<RolloutSettings, "agentUrl">): string {
  return agentUrl === null ? "its provider" : showAddress(agentUrl);
}

function programOptions(settings: RolloutSettings) {
  const { sampling, limits, seedTurns } = episodeOptions(settings);
  const constraints = { clients: settings.clientConstraints, loss: settings.constrained };
  return { sampling, constraints, credit: settings.lineageCredit, episode: { limits, seedTurns } };
}

/** The clients of a gateway start their own programs. */
const noPrograms: RunEpisode = () => {
  throw new TypeError("Episodes of outside programs are not run here.");
};

/** Throws a `ConfigurationError` if the engine reports no experts, or no file keeps them. */
export function expertsSink(
  {
    name,
    settings: { routedExperts },
    preset,
  }: { name: EngineName | null; settings: RolloutSettings; preset: Preset | null },
  file: Pick<RoutedExpertsSink, "write"> | null,
): RoutedExpertsSink | null {
  if (routedExperts === null) return null;
  const refuse = (reason: string): never => {
    throw new ConfigurationError(`Cannot keep routed experts: ${reason}; remove --routed-experts.`);
  };
  if (preset !== null) return refuse(`a preset records no tokens of the engine`);
  if (name === null) return refuse("an agent behind an API reports none");
  if (name !== "sglang" && name !== "vllm" && name !== "own") {
    return refuse(`engine "${name}" does not report them; only SGLang and vLLM do`);
  }
  if (file === null) {
    return refuse(
      "they are bytes in the folder of a `rollout`, or of a `serve` without other processes, and other commands have no place for them",
    );
  }
  const [layers, topk] = routedExperts.split("x").map(Number);
  return { layers: layers!, topk: topk!, write: (bytes) => file.write(bytes) };
}

function episodeOptions(settings: RolloutSettings) {
  return {
    sampling: samplingOf(settings),
    seedTurns: settings.seedTurns,
    timeouts: {
      openMs: milliseconds(settings.openTimeout),
      environmentMs: milliseconds(settings.environmentTimeout),
      userMs: userTimeoutMs(settings),
      graderMs: milliseconds(settings.gradingTimeout),
    },
    maxResultCharacters: settings.maxResultCharacters,
    limits: {
      maxTurns: settings.maxTurns,
      maxSampledTokens: settings.maxSampledTokens,
      maxContextTokens: settings.maxContextTokens,
    },
  };
}

/** A person has unlimited time to think. */
function userTimeoutMs({ userTimeout, user }: RolloutSettings): number {
  if (userTimeout !== null) return milliseconds(userTimeout);
  return user === "human" ? Infinity : defaultTimeouts.userMs;
}

export function samplingOf(settings: RolloutSettings): SamplingParams {
  const { temperature, topP, topK, minP, maxNewTokens, repetitionPenalty, samplingExtra } = settings;
  return { temperature, topP, topK, minP, maxNewTokens, repetitionPenalty, seed: null, extra: samplingExtra };
}
