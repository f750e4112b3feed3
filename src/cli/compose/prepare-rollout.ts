// From settings to everything a rollout needs, checked, before a server is asked or a folder made. The composition root:
// implementations are chosen here and nowhere below.

import { resolve } from "node:path";
import { type AgentStrategy, ConfigurationError, type SamplingParams, type UserSource } from "../../core/index.ts";
import { type EpisodeParts } from "../../episodes/index.ts";
import { type EpisodePlayer, type RolloutPlan, tokenExactPlayer } from "../../runs/index.ts";
import type { CliContext } from "../cli-context.ts";
import { loadEnvironment, type LoadedEnvironment } from "../load-environment.ts";
import type { RolloutSettings } from "../settings/rollout-settings.ts";
import { readTaskList } from "../settings/task-list.ts";
import { chooseEngineName, type ConnectedEngine, connectEngine, engineOptions } from "./choose-engine.ts";
import { type ChosenModel, chooseModel } from "./choose-model.ts";
import { chooseStrategy } from "./choose-strategy.ts";
import { chooseUser } from "./choose-user.ts";
import { withFaultPolicy } from "./fault-policy.ts";
import type { Preset } from "./preset.ts";
import { findPreset } from "./presets.ts";
import { recordUsers } from "./record-users.ts";
import { redactorFor } from "./secrets.ts";

export type PreparedRollout = {
  /** With everything decided that was left open. */
  readonly settings: RolloutSettings;
  readonly environment: LoadedEnvironment["source"];
  readonly plan: RolloutPlan;
  readonly sampling: SamplingParams;
  readonly model: ChosenModel;
  readonly user: UserSource;
  readonly preset: Preset | null;
  readonly redact: (text: string) => string;
  /** Asks the server whether it is there. Rejects with a `ConfigurationError` when it is not. */
  connect(cancel: AbortSignal): Promise<ConnectedEngine>;
  player(connected: ConnectedEngine): EpisodePlayer;
};

/** Throws a `ConfigurationError` for whatever the user can correct. */
export async function prepareRollout(
  given: RolloutSettings,
  context: Pick<CliContext, "env" | "cwd">,
): Promise<PreparedRollout> {
  const preset = findPreset(given.preset);
  if (preset !== null && given.faultPolicy !== "keep") {
    throw new ConfigurationError(
      `Cannot use --fault-policy ${given.faultPolicy} with preset "${given.preset}": a preset's samples are as they are; leave one of both out.`,
    );
  }
  const {
    source: environment,
    defaultSplit,
    defaultTasks,
  } = await loadEnvironment(given.env, { data: given.data, cwd: context.cwd });
  const split = given.split ?? defaultSplit;
  const engine = chooseEngineName(given);
  const sglang = engineOptions(given, context.env);
  if (!environment.splits.includes(split)) {
    throw new ConfigurationError(
      `Cannot play split "${split}" of "${environment.name}": it has ${environment.splits.join(", ")}; correct --split.`,
    );
  }
  const taskset = environment.taskset(split);
  const tasks = given.tasks ?? defaultTasks;
  const redact = redactorFor(context.env, {
    variables: [given.apiKeyEnv, given.userApiKeyEnv],
    urls: [given.url, given.userUrl],
  });
  const chosen = await chooseUser(given, environment, context);
  const user = recordUsers(chosen, given.recordUsers, { cwd: context.cwd, redact });
  const strategy = await chooseStrategy(given, environment, context.cwd);
  const model = await chooseModel(given, context.cwd);
  const settings: RolloutSettings = {
    ...given,
    split,
    tasks,
    engine,
    user: user.name,
    // The expert draws its mistakes from the seed of the turn and from nothing else.
    seedTurns: given.seedTurns || engine === "expert",
  };
  const sampling = samplingOf(settings);
  return {
    settings,
    environment,
    plan: {
      taskset,
      taskIndexes: readTaskList(tasks, taskset),
      samplesPerTask: settings.samplesPerTask,
      seed: settings.seed,
    },
    sampling,
    model,
    user,
    preset,
    redact,
    connect: (cancel) => connectEngine(engine, { sglang, model, expertNoise: settings.expertNoise, cancel }),
    player: (connected) => {
      if (preset !== null) {
        return preset.createPlayer({
          settings,
          environment,
          user,
          model,
          address: connected.address,
          apiKey: sglang.apiKey ?? null,
          cwd: context.cwd,
        });
      }
      const play = createPlayer(settings, {
        environment,
        user,
        strategy,
        renderer: model.renderer,
        engine: connected.engine,
      });
      const data = given.data === null ? null : resolve(context.cwd, given.data);
      return withFaultPolicy(play, { policy: settings.faultPolicy, environment, data });
    },
  };
}

function createPlayer(
  settings: RolloutSettings,
  parts: EpisodeParts & { readonly strategy: AgentStrategy },
): EpisodePlayer {
  return tokenExactPlayer(parts, {
    sampling: samplingOf(settings),
    seedTurns: settings.seedTurns,
    limits: {
      maxTurns: settings.maxSteps,
      maxSampledTokens: settings.maxSampledTokens,
      maxContextTokens: settings.maxContextTokens,
    },
    turnTimeoutMs: settings.turnTimeout * 1000,
  });
}

function samplingOf(settings: RolloutSettings): SamplingParams {
  const { temperature, topP, topK, minP, maxNewTokens, repetitionPenalty, samplingExtra } = settings;
  return { temperature, topP, topK, minP, maxNewTokens, repetitionPenalty, seed: null, extra: samplingExtra };
}
