// The smallest world in which something can be learnt: an untrained model samples eight tokens,
// passes if one of ten is among them, and breaks a rule with each of ten others. The real loop and
// the real engine run it; only the grade is made up here.

import { agentFactory } from "../agents/index.ts";
import { createEmbeddedEngine, type EmbeddedEngine } from "../engines/embedded/index.ts";
import { defineEnvironment } from "../environments/index.ts";
import { type Checkpoint, initializeWeights } from "./model/index.ts";
import { rendererFor } from "../renderers/index.ts";
import { type RunEpisode, episodeRunner } from "../rollout/index.ts";
import { createTokenizer, trainChatTokenizer } from "../tokenizers/index.ts";
import { selectUser } from "../users/index.ts";
import { type LearnerState, PolicyLearner, type PolicyOptions, type PolicyParts } from "./policy-learner.ts";
import { createTaskOrder } from "./task-order.ts";
import { createTrainer, type Trainer } from "./trainer.ts";

export const tinyConfig = {
  vocabularySize: 272,
  hiddenSize: 32,
  layers: 2,
  heads: 2,
  keyValueHeads: 1,
  headSize: 16,
  feedForwardSize: 40,
  ropeTheta: 10_000,
  normEpsilon: 1e-6,
  contextLength: 512,
};

export const tinyCheckpoint: Checkpoint = {
  config: tinyConfig,
  weights: initializeWeights(tinyConfig, { seed: 1 }),
};

const environment = defineEnvironment({
  name: "letters",
  guidelines: "Say it.",
  tools: { wait: { description: "Waits.", parameters: { type: "object", properties: {} }, run: () => "ok" } },
  tasks: { train: Array.from({ length: 30 }, (_, number) => ({ state: { number } })) },
  grade: () => 0,
});

export const tinyOptions: PolicyOptions = {
  groups: 6,
  maxGroups: 12,
  groupSize: 6,
  baseline: "group",
  normalizeAdvantages: true,
  loss: {},
  learningRate: 1e-2,
  penalty: 0,
  warmUpSteps: 2,
  maxGradientNorm: 1,
  weightDecay: 0,
  seed: 1,
  sabotage: "none",
};

export type TinyLearner = {
  readonly learner: PolicyLearner;
  readonly trainer: Trainer;
  readonly engine: EmbeddedEngine;
  readonly runEpisode: RunEpisode;
  close(): Promise<void>;
};

/** Two threads of each kind. `from`: the state of an earlier learner. */
export async function tinyLearner(
  options: Partial<PolicyOptions> = {},
  from: {
    readonly checkpoint?: Checkpoint;
    readonly optimizer?: Awaited<ReturnType<Trainer["optimizerState"]>>;
    readonly state?: LearnerState;
    /** The teacher, made of the trainer. */
    readonly teacherOf?: (trainer: Trainer) => NonNullable<PolicyParts["teacher"]>;
  } = {},
): Promise<TinyLearner> {
  const { checkpoint = tinyCheckpoint, optimizer, state, teacherOf } = from;
  const files = trainChatTokenizer(["Hi. Bye."], { vocabularySize: tinyConfig.vocabularySize });
  const tokenizer = await createTokenizer("tiny", files);
  const threads = 2;
  const trainer = await createTrainer(checkpoint, {
    threads,
    maxTokens: 2048,
    maxTargets: 512,
    ...(optimizer === undefined ? {} : { optimizer }),
  });
  const engine = createEmbeddedEngine({ checkpoint, threads, weightVersion: `step-${state?.step ?? 0}` });
  const renderer = rendererFor("qwen3-instruct-2507", tokenizer);
  const playUngraded = episodeRunner(
    { environment, user: selectUser("scripted", { lines: ["Hi."] }), engine, renderer, strategy: agentFactory() },
    { seedTurns: true, sampling: { maxNewTokens: 8 }, limits: { maxTurns: 1 } },
  );
  const runEpisode: RunEpisode = async (task, place) => {
    const played = await playUngraded(task, place);
    const said = played.episode.trajectory.turns[0]?.sampledTokens ?? [];
    const { grade } = played.episode;
    if (grade === null) return played;
    const reward = said.some((id) => id >= 100 && id < 110) ? 1 : 0;
    const metrics = { ruleViolations: said.filter((id) => id >= 110 && id < 120).length };
    return { ...played, episode: { ...played.episode, reward, grade: { ...grade, reward, metrics } } };
  };
  const taskset = environment.taskset("train");
  const indexes = Array.from({ length: taskset.size }, (_, index) => index);
  const learner = new PolicyLearner(
    {
      trainer,
      runEpisode,
      taskset,
      order: createTaskOrder({ indexes, traitsOf: () => ({ kind: "all", case: null, level: null }), seed: 1 }),
      publish: (version) => engine.updateWeights(trainer.weights(), version),
      ...(teacherOf === undefined ? {} : { teacher: teacherOf(trainer) }),
      reference: (sequences) => trainer.evaluate(sequences, { weights: tinyCheckpoint.weights }),
    },
    { ...tinyOptions, ...options },
    state,
  );
  return {
    learner,
    trainer,
    engine,
    runEpisode,
    close: async () => {
      await Promise.all([trainer.close(), engine.close()]);
    },
  };
}
