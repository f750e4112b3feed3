// What a trainer and its threads say to each other. Plain data: it is cloned on the way, apart from the shared arrays.

import type { CompiledKernels, ModelConfig, OptimizerState, UpdateOptions } from "../model/index.ts";
import type { LossSequence } from "../loss-sequence.ts";
import type { LossOptions } from "../token-loss.ts";

/** What a thread is born with. All shared arrays hold one float for each parameter. */
export type TrainerThreadSetup = {
  readonly config: ModelConfig;
  readonly kernels: CompiledKernels;
  readonly maxTokens: number;
  readonly maxTargets: number;
  /** Which of the threads this is; the first one also writes `weights` after an update. */
  readonly place: number;
  readonly weights: SharedArrayBuffer;
  /** One for each thread, which writes its own; all read all of them when they update. */
  readonly gradients: readonly SharedArrayBuffer[];
};

export type ThreadPass = { readonly sequences: readonly LossSequence[]; readonly prefixLength: number };

/** One per sequence of the pass. */
export type SequenceOutcome = {
  /** One per target. */
  readonly logprobs: Float32Array;
  /** Of the whole distribution at each target, in nats. */
  readonly entropies: Float32Array;
};

/** Sums over the targets of a pass. */
export type LossSums = {
  readonly loss: number;
  /** Weighted. */
  readonly entropy: number;
  /** Weighted. */
  readonly kl: number;
  readonly clipped: number;
};

export type PassOutcome = { readonly outcomes: readonly SequenceOutcome[]; readonly sums: LossSums };

export type ThreadOrder =
  | { readonly type: "accumulate"; readonly passes: readonly ThreadPass[]; readonly loss: LossOptions }
  /** `weights`: others than its own, for this once. */
  | { readonly type: "evaluate"; readonly passes: readonly ThreadPass[]; readonly weights: SharedArrayBuffer | null }
  | { readonly type: "update"; readonly options: UpdateOptions }
  | { readonly type: "read-optimizer" }
  | { readonly type: "restore"; readonly optimizer: OptimizerState };

/** Answers come in the order of the orders. */
export type ThreadAnswer =
  | { readonly type: "passes"; readonly passes: readonly PassOutcome[] }
  | { readonly type: "updated"; readonly gradientNorm: number }
  | { readonly type: "optimizer"; readonly optimizer: OptimizerState }
  | { readonly type: "restored" };
