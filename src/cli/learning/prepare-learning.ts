// From settings to everything a training needs: environment, model, engine, trainer. The same environment, user, strategy,
// renderer and loop as in a rollout; the engine and the trainer hold the same weights.

import { ConfigurationError, type Taskset } from "../../core/index.ts";
import { createEmbeddedEngine, type EmbeddedEngine } from "../../engines/embedded/index.ts";
import { createTaskOrder, type TaskOrder } from "../../learner/index.ts";
import { type Checkpoint, readCheckpoint } from "../../learner/model/index.ts";
import { type RunEpisode, episodeRunner } from "../../rollout/index.ts";
import type { CliContext } from "../cli-context.ts";
import { chooseModel, modelPath, withShippedModel } from "../../api/choose-model.ts";
import { samplingOf } from "../../api/choose-policy.ts";
import { chooseStrategy } from "../../api/choose-strategy.ts";
import { chooseUser } from "../../api/choose-user.ts";
import { loadEnvironment } from "../../api/load-environment.ts";
import type { RolloutSettings } from "../../api/rollout-settings.ts";
import type { TrainSettings } from "../../api/train-settings.ts";
import { readTaskList } from "../../api/task-list.ts";

export type HeldOutTasks = {
  readonly taskset: Taskset;
  /** For the comparison of before and after. */
  readonly final: readonly number[];
  /** For evaluations on the way; the first of `final`. */
  readonly onTheWay: readonly number[];
};

export type PreparedLearning = {
  readonly environmentName: string;
  readonly split: string;
  /** Folder that the training begins from, as it was named. */
  readonly modelFolder: string;
  readonly checkpoint: Checkpoint;
  readonly endTokenId: number;
  readonly trainTasks: Taskset;
  readonly order: TaskOrder;
  readonly heldOut: HeldOutTasks;
  /** Of a task, for balance and for tables; "all" where an environment names none. */
  readonly kindOf: (taskset: Taskset, index: number) => string;
  /** Starts an engine with these weights. */
  startEngine(checkpoint: Checkpoint, version: string): EmbeddedEngine;
  playerOf(engine: EmbeddedEngine): RunEpisode;
};

/** Throws a `ConfigurationError` for whatever the user can correct. */
export async function prepareLearning(
  settings: TrainSettings,
  given: RolloutSettings,
  context: Pick<CliContext, "env" | "cwd">,
): Promise<PreparedLearning> {
  const base = withShippedModel({ ...given, engine: "embedded" });
  const { cwd } = context;
  const { source: environment, defaultSplit } = await loadEnvironment(base.env, { data: base.data, cwd });
  const split = splitOf(environment, base.split ?? defaultSplit, "--split");
  const evalSplit = splitOf(
    environment,
    settings.evalSplit ?? (environment.splits.includes("test") ? "test" : split),
    "--eval-split",
  );
  const modelFolder = base.model ?? "";
  const [checkpoint, model, user, strategy] = await Promise.all([
    readCheckpoint(modelPath(modelFolder, cwd)),
    chooseModel(base, cwd),
    chooseUser(base, environment, context),
    chooseStrategy(base, environment, context),
  ]);
  if (model.tokenizer.vocabularySize > checkpoint.config.vocabularySize) {
    throw new ConfigurationError(
      `Cannot train "${modelFolder}": its tokenizer has ${model.tokenizer.vocabularySize} tokens, its config.json says ` +
        `${checkpoint.config.vocabularySize}; give the files of one model.`,
    );
  }
  const kindOf = (taskset: Taskset, index: number): string => {
    const kind = environment.open(taskset.task(index)).info.get("kind");
    return typeof kind === "string" ? kind : "all";
  };
  const trainTasks = environment.taskset(split);
  const evalTasks = environment.taskset(evalSplit);
  const indexes = readTaskList(base.tasks ?? "all", trainTasks);
  const isSameSplit = evalSplit === split;
  const [held, trained] = isSameSplit
    ? holdOut(indexes, settings.finalFrom + settings.finalTasks)
    : [[...allOf(evalTasks)], indexes];
  const { finalFrom, finalTasks } = settings;
  if (finalFrom > Math.max(0, held.length - 2)) {
    throw new ConfigurationError(
      `Cannot compare on held-out tasks from ${finalFrom}: there are ${held.length}, and two at least are compared; lower --final-from.`,
    );
  }
  const final = held.slice(finalFrom, finalFrom + finalTasks);
  return {
    environmentName: environment.name,
    split,
    modelFolder,
    checkpoint,
    endTokenId: model.renderer.stopTokenIds[0] ?? 0,
    trainTasks,
    order: createTaskOrder({ indexes: trained, kindOf: (index) => kindOf(trainTasks, index), seed: base.seed }),
    heldOut: { taskset: evalTasks, final, onTheWay: final.slice(0, settings.evalTasks) },
    kindOf,
    startEngine: (from, version) =>
      createEmbeddedEngine({
        checkpoint: from,
        weightVersion: version,
        seed: base.seed,
        ...(settings.threads === null ? {} : { threads: settings.threads }),
      }),
    playerOf: (engine) =>
      episodeRunner(
        { environment, user, engine, renderer: model.renderer, strategy },
        {
          sampling: samplingOf(base),
          // Every turn has a seed of its own, so that a run can be repeated and a resumed one goes on alike.
          seedTurns: true,
          limits: {
            maxTurns: base.maxTurns,
            maxSampledTokens: base.maxSampledTokens,
            maxContextTokens: checkpoint.config.contextLength,
          },
        },
      ),
  };
}

function splitOf(
  environment: { readonly name: string; readonly splits: readonly string[] },
  split: string,
  flag: string,
): string {
  if (environment.splits.includes(split)) return split;
  throw new ConfigurationError(
    `Cannot play split "${split}" of "${environment.name}": it has ${environment.splits.join(", ")}; correct ${flag}.`,
  );
}

function allOf(taskset: Taskset): Iterable<number> {
  return Array(taskset.size).keys();
}

/** Where there is one split alone, its first tasks are kept for evaluation, a third of them at most. */
function holdOut(indexes: readonly number[], count: number): [readonly number[], readonly number[]] {
  const held = Math.min(count, Math.floor(indexes.length / 3));
  if (held < 1) {
    throw new ConfigurationError(
      `Cannot train on ${indexes.length} tasks: a third of them is held out to see what was learnt; give 3 or more with --tasks.`,
    );
  }
  return [indexes.slice(0, held), indexes.slice(held)];
}
