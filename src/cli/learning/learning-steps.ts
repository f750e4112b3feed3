// The algorithms of `train` behind one interface: make a step, say what it did. Learning from rewards plays episodes; cloning
// reads samples and plays none.

import { ConfigurationError } from "../../core/index.ts";
import {
  CloningLearner,
  type LearnerState,
  PolicyLearner,
  type PolicyOptions,
  stepMetrics,
  type StepMetrics,
  type Trainer,
} from "../../learner/index.ts";
import type { RunEpisode } from "../../rollout/index.ts";
import type { TrainSettings } from "../../api/train-settings.ts";
import type { PreparedLearning } from "./prepare-learning.ts";
import { readClonedSamples } from "./read-cloned-samples.ts";
import type { TrainingOptions } from "./training-options.ts";

export interface Stepper {
  readonly state: LearnerState;
  /** `null`: the signal aborted it, and nothing has changed. The engine has the new weights afterwards. */
  step(signal: AbortSignal): Promise<StepMetrics | null>;
}

export type StepperParts = TrainingOptions & {
  readonly prepared: PreparedLearning;
  readonly trainer: Trainer;
  readonly play: RunEpisode;
  readonly publish: (weights: Float32Array, version: string) => Promise<void>;
  readonly state: LearnerState;
};

export async function createStepper(parts: StepperParts): Promise<Stepper> {
  const { settings } = parts;
  const isCloning = settings.algorithm === "sft";
  if (isCloning !== (settings.from !== null)) {
    throw new ConfigurationError(
      isCloning
        ? "Cannot imitate: no samples are named; give --from <file|folder>."
        : `Cannot use --from with --algorithm ${settings.algorithm}: it learns from episodes that it plays; use --algorithm sft.`,
    );
  }
  return settings.from === null ? policyStepper(parts) : cloningStepper(parts, settings.from);
}

function policyStepper(parts: StepperParts): Stepper {
  const { prepared, trainer, play, publish, state } = parts;
  const { trainTasks: taskset, order, checkpoint } = prepared;
  const learner = new PolicyLearner(
    { trainer, runEpisode: play, taskset, order, publish, reference: checkpoint.weights },
    policyOptions(parts),
    state,
  );
  return {
    get state() {
      return learner.state;
    },
    step: async (signal) => {
      const step = await learner.step(signal);
      return step === null ? null : stepMetrics(step);
    },
  };
}

function policyOptions({ settings, base, sabotage = "none" }: StepperParts): PolicyOptions {
  const { groups, samples, penalty, clip, kl, entropy } = settings;
  return {
    ...updateOptions(settings),
    groups,
    samples,
    penalty,
    maxGroups: Math.max(groups, settings.maxGroups ?? 2 * groups),
    baseline: settings.algorithm === "reinforce" ? "batch" : "group",
    normalizeAdvantages: settings.normalize === "std",
    loss: { clip: clip === null ? null : { low: clip, high: clip }, kl, entropy },
    seed: base.seed,
    sabotage,
  };
}

async function cloningStepper(parts: StepperParts, from: string): Promise<Stepper> {
  const { settings, base, prepared, trainer, publish, state, context } = parts;
  const samples = await readClonedSamples(from, {
    cwd: context.cwd,
    minReward: settings.minReward,
    vocabularySize: prepared.checkpoint.config.vocabularySize,
    modelFolder: prepared.modelFolder,
  });
  const learner = new CloningLearner(trainer, samples, {
    ...updateOptions(settings),
    batch: settings.batch,
    seed: base.seed,
    step: state.step,
  });
  return {
    get state() {
      return { ...state, step: learner.stepsMade };
    },
    step: async () => {
      const metrics = await learner.step();
      await publish(trainer.weights(), `step-${learner.stepsMade}`);
      return metrics;
    },
  };
}

function updateOptions({ algorithm, lr, warmUp, maxGradNorm, weightDecay }: TrainSettings) {
  return {
    learningRate: lr ?? (algorithm === "sft" ? 1e-3 : 3e-4),
    warmUpSteps: warmUp,
    maxGradientNorm: maxGradNorm,
    weightDecay,
  };
}
