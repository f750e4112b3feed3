// The program of one thread of a trainer: it has a whole model of its own, sums gradients over its
// share of the sequences, and then makes the same update as every other thread, from the same sum
// in the same order.

import { parentPort, workerData } from "node:worker_threads";

import type { LossOptions, LossSequence } from "./loss.ts";
import {
  type CompiledKernels,
  type ModelConfig,
  type OptimizerState,
  TrainingModel,
  type UpdateOptions,
} from "./model/index.ts";
import { evaluatePass, type Pass, type TokenTargets, trainPass } from "./training-pass.ts";

/** All shared arrays hold one float for each parameter. */
export type TrainerThreadSetup = {
  readonly config: ModelConfig;
  readonly kernels: CompiledKernels;
  readonly maxTokens: number;
  readonly maxTargets: number;
  /** State to continue from; `null` at the beginning of a training. */
  readonly optimizer: OptimizerState | null;
  /** Index of this thread; the first one also writes `weights` after an update. */
  readonly place: number;
  readonly weights: SharedArrayBuffer;
  /**
   * One array for each thread, which writes its own; all threads read all of them for an update.
   */
  readonly gradients: readonly SharedArrayBuffer[];
};

const port = parentPort;
if (port === null) throw new Error("Cannot run: this program is for a worker thread of a trainer.");

const setup = workerData as TrainerThreadSetup;
const shared = new Float32Array(setup.weights);
const gradients = setup.gradients.map((buffer) => new Float32Array(buffer));
const model = new TrainingModel({ ...setup, weights: shared });
if (setup.optimizer !== null) model.restoreOptimizer(setup.optimizer);

/**
 * Methods that a trainer may call. Arguments and results are plain data, cloned on the way apart
 * from shared arrays.
 */
const methods = {
  accumulate: (passes: readonly Pass<LossSequence>[], loss: LossOptions) => {
    const outcomes = passes.map((pass) => trainPass(model, pass, loss));
    gradients[setup.place]!.set(model.gradients);
    return outcomes;
  },
  /** `weights`: weights to use for this call instead of the model's own. */
  evaluate: (passes: readonly Pass<TokenTargets>[], weights: SharedArrayBuffer | null) => {
    const own = weights === null ? null : model.weights.slice();
    if (weights !== null) replaceWeights(new Float32Array(weights));
    try {
      return passes.map((pass) => ({ outcomes: evaluatePass(model, pass) }));
    } finally {
      if (own !== null) replaceWeights(own);
    }
  },
  /** Returns the norm of the gradients before clipping. */
  update: (options: UpdateOptions) => {
    // Summed thread by thread, so that every thread computes the same sum.
    const sum = model.gradients;
    const [first, ...others] = gradients;
    sum.set(first!);
    for (const other of others) for (let index = 0; index < sum.length; index++) sum[index]! += other[index]!;
    const norm = model.update(options);
    model.clearGradients();
    if (setup.place === 0) shared.set(model.weights);
    return norm;
  },
  optimizerState: () => model.optimizerState(),
};

export type TrainerThreadMethods = typeof methods;

function replaceWeights(weights: Float32Array): void {
  model.weights.set(weights);
  model.weightsChanged();
}

// Results are posted in the order of the calls.
port.on("message", ([name, values]: [keyof TrainerThreadMethods, readonly never[]]) => {
  port.postMessage((methods[name] as (...args: readonly never[]) => unknown)(...values));
});
