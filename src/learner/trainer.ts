// Gradients and updates of an embedded model on several threads, data-parallel: each thread has the whole model, takes a
// share of the sequences, and then makes the same AdamW step from the same sum. Which sequences, which advantages and which
// loss is the caller's; see `policy-rows.ts`. The same checkpoint, calls and number of threads give the same bits; another
// number of threads sums in another order.

import { availableParallelism } from "node:os";

import { ConfigurationError } from "../core/failure.ts";
import {
  firstNotFinite,
  type Checkpoint,
  type CompiledKernels,
  loadKernels,
  type ModelConfig,
  type OptimizerState,
  type UpdateOptions,
} from "./model/index.ts";
import { checkSequences } from "./check-sequences.ts";
import type { LossSequence } from "./loss-sequence.ts";
import { splitWork } from "./split-work.ts";
import type { LossOptions } from "./token-loss.ts";
import type { LossSums, SequenceOutcome, ThreadAnswer, ThreadOrder } from "./threads/thread-protocol.ts";
import { TrainerThread } from "./threads/trainer-thread.ts";

export type TrainerOptions = {
  /** 1 to 64. Default: one for each core, 8 at most. */
  readonly threads?: number;
  /** Most tokens of one pass of one thread, a shared prefix counted once. More take memory, about 40 kB each. Default: two contexts. */
  readonly maxTokens?: number;
  /** Most targets of one pass of one thread. Default: `maxTokens`. */
  readonly maxTargets?: number;
  /** To go on from. Default: AdamW begins anew. */
  readonly optimizer?: OptimizerState;
  /** Default: the best build for this host. */
  readonly kernels?: CompiledKernels;
};

/** What a call computed, over all its sequences. */
export type LossOutcome = LossSums & {
  readonly targets: number;
  /** In the order of the sequences. */
  readonly sequences: readonly SequenceOutcome[];
};

export interface Trainer {
  readonly config: ModelConfig;
  readonly threads: number;
  /** Adds the gradients of the loss of these sequences to those gathered since the last update. Rejects with a `RangeError` for sequences that do not fit. */
  accumulate(sequences: readonly LossSequence[], loss?: LossOptions): Promise<LossOutcome>;
  /** One AdamW step with what was gathered. Resolves with the norm of the gradients before clipping; rejects when nothing was. */
  update(options: UpdateOptions): Promise<number>;
  /** Logprobs and entropies at the targets, nothing learnt. `weights`: of another model of this shape. */
  evaluate(
    sequences: readonly Pick<LossSequence, "tokens" | "targets">[],
    options?: { readonly weights?: Float32Array },
  ): Promise<readonly SequenceOutcome[]>;
  /** A copy of the weights after the last update. */
  weights(): Float32Array;
  /** A copy of AdamW's memory. */
  optimizerState(): Promise<OptimizerState>;
  close(): Promise<void>;
}

/**
 * Starts the threads. Throws a `ConfigurationError` for a number out of range. Calls are carried out one after the other.
 *
 * @example
 * const trainer = await createTrainer(await readCheckpoint("models/small"), { threads: 2 });
 * const { loss } = await trainer.accumulate([cloningSequence(tokens, targets, 1 / targets.length)]);
 * await trainer.update({ learningRate: 1e-3 });
 */
export async function createTrainer(checkpoint: Checkpoint, options: TrainerOptions = {}): Promise<Trainer> {
  const threads = inRange("threads", options.threads ?? Math.min(8, availableParallelism()), 64);
  const maxTokens = inRange("maxTokens", options.maxTokens ?? 2 * checkpoint.config.contextLength, 2 ** 20);
  const maxTargets = inRange("maxTargets", options.maxTargets ?? maxTokens, 2 ** 20);
  const kernels = options.kernels ?? loadKernels();
  const trainer = new ThreadedTrainer(checkpoint, { threads, maxTokens, maxTargets, kernels });
  if (options.optimizer !== undefined) await trainer.restore(options.optimizer);
  return trainer;
}

type Sizes = {
  readonly threads: number;
  readonly maxTokens: number;
  readonly maxTargets: number;
  readonly kernels: CompiledKernels;
};

class ThreadedTrainer implements Trainer {
  readonly config: ModelConfig;
  readonly threads: number;
  readonly #sizes: Sizes;
  readonly #shared: Float32Array;
  readonly #threads: readonly TrainerThread[];
  /** Settles when the last call is over: a thread must not begin the next while another still reads its gradients. */
  #last: Promise<unknown> = Promise.resolve();
  #hasGradients = false;

  constructor({ config, weights }: Checkpoint, sizes: Sizes) {
    const wrong = firstNotFinite(weights);
    if (wrong >= 0) {
      throw new RangeError(
        `Cannot train: weight ${wrong} is ${weights[wrong]}, finite numbers wanted; give an earlier checkpoint.`,
      );
    }
    this.config = config;
    this.threads = sizes.threads;
    this.#sizes = sizes;
    this.#shared = sharedFloats(weights);
    const buffers = Array.from({ length: sizes.threads }, () => new SharedArrayBuffer(weights.byteLength));
    const { maxTokens, maxTargets, kernels } = sizes;
    const setup = { config, kernels, maxTokens, maxTargets, gradients: buffers };
    const own = this.#shared.buffer as SharedArrayBuffer;
    this.#threads = buffers.map((_, place) => new TrainerThread({ ...setup, place, weights: own }));
  }

  async accumulate(sequences: readonly LossSequence[], loss: LossOptions = {}): Promise<LossOutcome> {
    const outcome = await this.#run(sequences, (passes) => ({ type: "accumulate", passes, loss }));
    this.#hasGradients = true;
    return outcome;
  }

  async update(options: UpdateOptions): Promise<number> {
    if (!this.#hasGradients) throw new Error('Cannot update: no gradients are gathered; call "accumulate" before.');
    this.#hasGradients = false;
    const answers = await this.#orderAll(() => ({ type: "update", options }));
    const { gradientNorm } = expect(answers[0]!, "updated");
    if (Number.isFinite(gradientNorm)) return gradientNorm;
    throw new Error(
      `Cannot update: the norm of the gradients is ${gradientNorm}, a finite number wanted. The training diverged and the weights are as they were before; lower the learning rate, or go on from an earlier checkpoint.`,
    );
  }

  async evaluate(
    sequences: readonly Pick<LossSequence, "tokens" | "targets">[],
    options: { readonly weights?: Float32Array } = {},
  ): Promise<readonly SequenceOutcome[]> {
    const weights = options.weights === undefined ? null : this.#sharedWeights(options.weights);
    const none = new Float32Array(0);
    const rows = sequences.map(({ tokens, targets }) => {
      return { tokens, targets, weights: none, advantages: none, sampledLogprobs: null, referenceLogprobs: null };
    });
    return (await this.#run(rows, (passes) => ({ type: "evaluate", passes, weights }))).sequences;
  }

  weights(): Float32Array {
    return Float32Array.from(this.#shared);
  }

  async optimizerState(): Promise<OptimizerState> {
    const [answer] = await this.#orderAll(() => ({ type: "read-optimizer" }));
    return expect(answer!, "optimizer").optimizer;
  }

  async restore(optimizer: OptimizerState): Promise<void> {
    const wanted = this.#shared.length;
    if (optimizer.means.length !== wanted || optimizer.variances.length !== wanted) {
      throw new RangeError(
        `Cannot go on training: the optimizer state is of ${optimizer.means.length} parameters, the model has ${wanted}; give the two of one run.`,
      );
    }
    await this.#orderAll(() => ({ type: "restore", optimizer }));
  }

  async close(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.close()));
  }

  async #run(
    sequences: readonly LossSequence[],
    orderFor: (passes: Extract<ThreadOrder, { type: "evaluate" }>["passes"]) => ThreadOrder,
  ): Promise<LossOutcome> {
    checkSequences(sequences, { ...this.#sizes, config: this.config });
    const shares = splitWork(sequences, this.#sizes);
    const answers = await this.#orderAll((place) =>
      orderFor(
        shares[place]!.map(({ members, prefixLength }) => ({
          sequences: members.map((index) => sequences[index]!),
          prefixLength,
        })),
      ),
    );
    const outcomes: SequenceOutcome[] = [];
    const sums = { loss: 0, entropy: 0, kl: 0, clipped: 0 };
    shares.forEach((passes, thread) =>
      passes.forEach(({ members }, index) => {
        const pass = expect(answers[thread]!, "passes").passes[index]!;
        members.forEach((member, place) => (outcomes[member] = pass.outcomes[place]!));
        for (const name of ["loss", "entropy", "kl", "clipped"] as const) sums[name] += pass.sums[name];
      }),
    );
    const targets = sequences.reduce((sum, sequence) => sum + sequence.targets.length, 0);
    return { ...sums, targets, sequences: outcomes };
  }

  /** One answer for each thread. */
  #orderAll(orderFor: (place: number) => ThreadOrder): Promise<readonly ThreadAnswer[]> {
    const answers = this.#last.then(() =>
      Promise.all(this.#threads.map((thread, place) => thread.order(orderFor(place)))),
    );
    this.#last = answers.catch(() => undefined);
    return answers;
  }

  #sharedWeights(weights: Float32Array): SharedArrayBuffer {
    if (weights.length !== this.#shared.length) {
      throw new RangeError(
        `Cannot evaluate: ${weights.length} weights are given, the model has ${this.#shared.length} parameters.`,
      );
    }
    return sharedFloats(weights).buffer as SharedArrayBuffer;
  }
}

function sharedFloats(values: Float32Array): Float32Array {
  const shared = new Float32Array(new SharedArrayBuffer(values.byteLength));
  shared.set(values);
  return shared;
}

function expect<T extends ThreadAnswer["type"]>(answer: ThreadAnswer, type: T): Extract<ThreadAnswer, { type: T }> {
  if (answer.type === type) return answer as Extract<ThreadAnswer, { type: T }>;
  throw new Error(`Cannot train: a thread answered "${answer.type}" where "${type}" was wanted.`);
}

function inRange(name: string, value: number, most: number): number {
  if (Number.isInteger(value) && value >= 1 && value <= most) return value;
  throw new ConfigurationError(`Cannot make a trainer: ${name} is ${value}, an integer from 1 to ${most} wanted.`);
}
