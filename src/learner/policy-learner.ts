// Learning from episodes, step by step: play groups with the weights of the moment, compare rewards, take one gradient, make
// one update, hand the new weights to the engine. On-policy: what a step plays is used once and by that step alone. When to
// stop, what to evaluate and what to keep is the caller's.

import type { TaskOrder } from "./task-order.ts";
import type { Taskset } from "../core/index.ts";
import type { RunEpisode } from "../rollout/index.ts";
import { collectGroups, type PlayedGroup } from "./collect-groups.ts";
import type { Baseline } from "./group-advantages.ts";
import { disagreement, type LogprobAgreement, logprobAgreement } from "./logprob-agreement.ts";
import type { LossSequence } from "./loss-sequence.ts";
import { policySequences, type Sabotage, type WeightedSample } from "./policy-sequences.ts";
import type { LossOptions } from "./token-loss.ts";
import type { LossOutcome, Trainer } from "./trainer.ts";
import { weighSamples } from "./weigh-samples.ts";

export type PolicyOptions = {
  /** Groups that teach something which a step wants. */
  readonly groups: number;
  /** Most groups of a step, dead ones included. */
  readonly maxGroups: number;
  /** Episodes of a group. */
  readonly samples: number;
  readonly baseline: Baseline;
  readonly normalizeAdvantages: boolean;
  readonly loss: LossOptions;
  readonly learningRate: number;
  /** See `WeighOptions`. */
  readonly penalty: number;
  /** Steps over which the learning rate rises from 0. */
  readonly warmUpSteps: number;
  readonly maxGradientNorm: number | null;
  readonly weightDecay: number;
  readonly seed: number;
  /** For experiments that show what the checks are for. */
  readonly sabotage: Sabotage;
};

export type PolicyParts = {
  readonly trainer: Trainer;
  /** Plays with the weights that were published last, and seeds every turn. */
  readonly runEpisode: RunEpisode;
  readonly taskset: Taskset;
  readonly order: TaskOrder;
  /** Hands weights to the engine; resolves when it samples from them. */
  readonly publish: (weights: Float32Array, version: string) => Promise<void>;
  /** The weights to stay close to; read only where the loss has `kl`. */
  readonly reference: Float32Array;
};

/** Where a learner stands, beside the weights and the optimizer. */
export type LearnerState = {
  /** Steps made. */
  readonly step: number;
  /** Groups played. */
  readonly groups: number;
  readonly liveShare: number;
};

export const firstState: LearnerState = Object.freeze({ step: 0, groups: 0, liveShare: 1 });

/** What a step did. Losses and the like are means over the tokens in the loss. */
export type PolicyStep = {
  /** From 1. */
  readonly step: number;
  /** The version of the weights that the step played with. */
  readonly weightVersion: string;
  readonly groups: readonly PlayedGroup[];
  /** `null`: no group taught anything, and the weights are as before. */
  readonly update: PolicyUpdate | null;
  readonly rolloutMs: number;
  readonly trainMs: number;
};

export type PolicyUpdate = {
  readonly samples: number;
  /** Tokens in the loss. */
  readonly tokens: number;
  readonly loss: number;
  readonly entropy: number;
  readonly kl: number;
  /** Share of tokens whose ratio left the clip. */
  readonly clipped: number;
  readonly gradientNorm: number;
  readonly learningRate: number;
  readonly agreement: LogprobAgreement;
};

/** Sampling and training disagree about the logprobs of the same tokens. The weights are as before the step. */
export class DisagreementError extends Error {
  readonly agreement: LogprobAgreement;

  constructor(step: number, reason: string, agreement: LogprobAgreement) {
    super(`Cannot train at step ${step}: ${reason}.`);
    this.name = "DisagreementError";
    this.agreement = agreement;
  }
}

export class PolicyLearner {
  readonly #parts: PolicyParts;
  readonly #options: PolicyOptions;
  #state: LearnerState;

  /** `state`: to go on from, together with the trainer's weights and optimizer. */
  constructor(parts: PolicyParts, options: PolicyOptions, state: LearnerState = firstState) {
    this.#parts = parts;
    this.#options = options;
    this.#state = state;
  }

  get state(): LearnerState {
    return this.#state;
  }

  /** The version of the weights that the next step plays with. */
  get weightVersion(): string {
    return `step-${this.#state.step}`;
  }

  /**
   * Plays, compares, updates, publishes. Resolves with `null` when the signal aborted it, and then nothing has changed.
   * Rejects with a {@link DisagreementError}, or an `Error` for samples that are not aligned, before anything is updated.
   */
  async step(signal: AbortSignal): Promise<PolicyStep | null> {
    const { samples, maxGroups, seed, baseline, penalty } = this.#options;
    const state = this.#state;
    const begun = performance.now();
    const groups = await collectGroups(this.#parts, {
      groups: this.#options.groups,
      samples,
      maxGroups,
      seed,
      firstGroup: state.groups,
      liveShare: state.liveShare,
      signal,
    });
    if (signal.aborted) return null;
    const { weightVersion } = this;
    const played = performance.now();
    const rows = weighSamples(groups, { baseline, normalize: this.#options.normalizeAdvantages, penalty });
    const update = rows.length === 0 ? null : await this.#update(rows);
    const live = groups.filter((group) => !group.isDead).length;
    this.#state = { step: state.step + 1, groups: state.groups + groups.length, liveShare: live / groups.length };
    await this.#parts.publish(this.#parts.trainer.weights(), this.weightVersion);
    const [rolloutMs, trainMs] = [played - begun, performance.now() - played];
    return { step: this.#state.step, weightVersion, groups, update, rolloutMs, trainMs };
  }

  async #update(rows: readonly WeightedSample[]): Promise<PolicyUpdate> {
    const { trainer } = this.#parts;
    const { loss, warmUpSteps, maxGradientNorm, weightDecay, sabotage } = this.#options;
    const step = this.#state.step + 1;
    if (sabotage === "none") checkVersions(rows, this.weightVersion);
    const sequences = await this.#withReference(policySequences(rows, sabotage));
    const outcome = await trainer.accumulate(sequences, loss);
    const agreement = logprobAgreement(sequences, outcome.sequences);
    const reason = sabotage === "none" ? disagreement(agreement) : null;
    if (reason !== null) throw new DisagreementError(step, reason, agreement);
    const learningRate = this.#options.learningRate * Math.min(1, step / Math.max(1, warmUpSteps));
    const gradientNorm = await trainer.update({ learningRate, maxGradientNorm, weightDecay });
    return { samples: rows.length, ...summary(outcome), gradientNorm, learningRate, agreement };
  }

  async #withReference(sequences: readonly LossSequence[]): Promise<readonly LossSequence[]> {
    const { loss } = this.#options;
    if (loss.kl === undefined || loss.kl === 0) return sequences;
    const outcomes = await this.#parts.trainer.evaluate(sequences, { weights: this.#parts.reference });
    return sequences.map((sequence, index) => ({ ...sequence, referenceLogprobs: outcomes[index]!.logprobs }));
  }
}

/** On-policy means on these weights: an engine that has not taken them yet samples for another gradient. */
function checkVersions(rows: readonly WeightedSample[], wanted: string): void {
  for (const { sample } of rows) {
    const other = sample.weightRanges.find(({ reply }) => reply !== wanted);
    if (other === undefined) continue;
    throw new Error(
      `Cannot train: sample "${sample.id}" was sampled by weights "${other.reply ?? "unknown"}", "${wanted}" are trained; ` +
        "wait until the engine has taken the weights.",
    );
  }
}

function summary({ loss, entropy, kl, clipped, targets }: LossOutcome) {
  return { tokens: targets, loss, entropy, kl, clipped: targets === 0 ? 0 : clipped / targets };
}
