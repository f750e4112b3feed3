// The algorithm of a training, from its settings. The training itself is in `train.ts`.

import { ConfigurationError } from "../core/index.ts";
import {
  CloningLearner,
  type Learner,
  type LearnerState,
  type LogprobAgreement,
  PolicyLearner,
  type PolicyParts,
  readClonedSamples,
  type Sabotage,
  groupRecords,
  stalenessOf,
  stepMetrics,
  type Trainer,
} from "../learner/index.ts";
import type { RolloutSettings } from "./rollout-settings.ts";
import type { Surroundings } from "./surroundings.ts";
import type { TrainSettings } from "./train-settings.ts";

/** The algorithm: learning from rewards runs episodes; cloning reads samples and runs no episode. */
export async function createLearner(
  { settings, surroundings }: { readonly settings: TrainSettings; readonly surroundings: Surroundings },
  parts: PolicyParts,
  from: {
    readonly base: RolloutSettings;
    readonly modelFolder: string;
    readonly state: LearnerState;
    readonly sabotage: Sabotage;
    /** The trainer that clones; `null` if the model cannot be cloned into. */
    readonly cloner: Trainer | null;
    readonly agreement?: Pick<LogprobAgreement, "mean" | "largest">;
  },
): Promise<Learner> {
  const { algorithm, lr, warmUp: warmUpSteps, maxGradNorm: maxGradientNorm, weightDecay } = settings;
  const { base, modelFolder, state, sabotage, cloner } = from;
  const isCloning = algorithm === "sft";
  if (isCloning !== (settings.from !== null)) {
    throw new ConfigurationError(
      isCloning
        ? "Cannot imitate samples: none are named; pass --from <file|folder>."
        : `Cannot use --from with --algorithm ${algorithm}: it learns from episodes that it runs; use --algorithm sft.`,
    );
  }
  if (isCloning && settings.credit !== "outcome") {
    throw new ConfigurationError(
      `Cannot use --credit ${settings.credit} with --algorithm sft: imitation has no rewards; remove it.`,
    );
  }
  if (isCloning && settings.teacher !== null) {
    throw new ConfigurationError(
      "Cannot use --teacher with --algorithm sft: imitation samples nothing that a teacher could score; use --algorithm grpo.",
    );
  }
  const updates = { learningRate: lr ?? (isCloning ? 1e-3 : 3e-4), warmUpSteps, maxGradientNorm, weightDecay };
  const { seed } = base;
  if (settings.from === null) {
    const { groups, groupSize, maxGroups, penalty, clip, kl, entropy, credit, creditDiscount } = settings;
    if (credit === "outcome" && creditDiscount !== 1) {
      throw new ConfigurationError(
        `Cannot discount by ${creditDiscount}: with --credit outcome every token answers for the whole reward; pass --credit turn, or remove --credit-discount.`,
      );
    }
    const { teacherWeight, rewardWeight } = settings;
    const policy = new PolicyLearner(
      parts,
      {
        distill: { teacherWeight, rewardWeight },
        ...updates,
        groups,
        groupSize,
        penalty,
        seed,
        sabotage,
        maxGroups: Math.max(groups, maxGroups ?? 2 * groups),
        baseline: algorithm === "reinforce" ? "batch" : "group",
        normalizeAdvantages: settings.normalize === "std",
        credit,
        creditDiscount,
        ...(from.agreement === undefined ? {} : { agreement: from.agreement }),
        loss: { clip: clip === null ? null : { low: clip, high: clip }, kl, entropy },
      },
      state,
    );
    let last: ReturnType<NonNullable<Learner["lastGroups"]>> = null;
    return {
      get state() {
        return policy.state;
      },
      step: async (signal) => {
        const step = await policy.step(signal);
        last = step === null ? null : { staleness: stalenessOf(step), groups: groupRecords(step) };
        return step === null ? null : stepMetrics(step);
      },
      lastGroups: () => last,
    };
  }
  if (cloner === null) {
    throw new ConfigurationError(
      "Cannot imitate with a model of torch: this trainer learns from rewards only; use --algorithm grpo, or a trainer for SFT on exported rows.",
    );
  }
  const samples = await readClonedSamples(settings.from, {
    cwd: surroundings.cwd,
    minReward: settings.minReward,
    modelFolder,
    vocabularySize: cloner.config.vocabularySize,
  });
  const cloning = new CloningLearner(cloner, samples, {
    ...updates,
    seed,
    batch: settings.batch,
    step: state.step,
  });
  return {
    get state() {
      return { ...state, step: cloning.stepsMade };
    },
    step: async () => {
      const metrics = await cloning.step();
      await parts.publish(`step-${cloning.stepsMade}`);
      return metrics;
    },
  };
}
