// Gradients and updates of an embedded model on several threads, data-parallel: each thread has the
// whole model, takes a share of the sequences, and then makes the same AdamW step from the same
// sum. The caller provides sequences, advantages and loss; see `advantages.ts`. The same
// checkpoint, calls and number of threads give the same bits; another number of threads sums in
// another order.

import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";

import { ConfigurationError } from "../core/failure.ts";
import type { LossOptions, LossSequence, LossSums, SequenceOutcome } from "./loss.ts";
import {
  firstNotFinite,
  type Checkpoint,
  type CompiledKernels,
  loadKernels,
  type ModelConfig,
  type OptimizerState,
  type UpdateOptions,
} from "./model/index.ts";
import type { TrainerThreadMethods, TrainerThreadSetup } from "./trainer-worker.ts";
import { checkSequences, type Pass, type PassLimits, splitWork, type TokenTargets } from "./training-pass.ts";

export type TrainerOptions = {
  /** Number of threads, 1 to 64. Default: one for each core, at most 8. */
  readonly threads?: number;
  /**
   * Maximum number of tokens of one pass of one thread; a shared prefix counts once. Each takes
   * about 40 kB of memory. Default: two contexts.
   */
  readonly maxTokens?: number;
  /** Maximum number of targets of one pass of one thread. Default: `maxTokens`. */
  readonly maxTargets?: number;
  /** Optimizer state of an earlier training, to continue it. Default: none. */
  readonly optimizer?: OptimizerState;
  /** Default: the best build for this host. */
  readonly kernels?: CompiledKernels;
};

/** Results of a call, over all its sequences. */
export type LossOutcome = LossSums & {
  readonly targets: number;
  /** Outcomes in the order of the sequences. */
  readonly sequences: readonly SequenceOutcome[];
};

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
  const { kernels = loadKernels(), optimizer = null } = options;
  return new Trainer(checkpoint, { threads, maxTokens, maxTargets }, { kernels, optimizer });
}

export class Trainer {
  readonly config: ModelConfig;
  readonly threads: number;
  readonly #limits: PassLimits;
  readonly #shared: Float32Array;
  readonly #threads: readonly TrainerThread[];
  /**
   * Settles after the last call: a thread must not begin the next one while another still reads its
   * gradients.
   */
  #last: Promise<unknown> = Promise.resolve();
  #hasGradients = false;

  constructor(
    { config, weights }: Checkpoint,
    limits: PassLimits,
    from: { readonly kernels: CompiledKernels; readonly optimizer: OptimizerState | null },
  ) {
    const wrong = firstNotFinite(weights);
    if (wrong >= 0) {
      throw new RangeError(
        `Cannot train: weight ${wrong} is ${weights[wrong]}, expected a finite number; use an earlier checkpoint.`,
      );
    }
    const { means, variances } = from.optimizer ?? { means: weights, variances: weights };
    if (means.length !== weights.length || variances.length !== weights.length) {
      throw new RangeError(
        `Cannot continue training: the optimizer state has ${means.length} parameters, but the model has ${weights.length}; use both from the same run.`,
      );
    }
    this.config = config;
    this.threads = limits.threads;
    this.#limits = limits;
    this.#shared = sharedFloats(weights);
    const gradients = Array.from({ length: limits.threads }, () => new SharedArrayBuffer(weights.byteLength));
    const setup = { config, ...limits, ...from, gradients, weights: bufferOf(this.#shared) };
    this.#threads = gradients.map((_, place) => new TrainerThread({ ...setup, place }));
  }

  /**
   * Adds the gradients of the loss of these sequences to those accumulated since the last update.
   * Rejects with a `RangeError` for sequences that do not fit.
   */
  async accumulate(sequences: readonly LossSequence[], loss: LossOptions = {}): Promise<LossOutcome> {
    const run = await this.#run(sequences, (thread, passes) => thread.call("accumulate", passes, loss));
    this.#hasGradients = true;
    const sums = { loss: 0, entropy: 0, kl: 0, clipped: 0 };
    for (const pass of run.passes) {
      for (const name of ["loss", "entropy", "kl", "clipped"] as const) sums[name] += pass.sums[name];
    }
    const targets = sequences.reduce((sum, sequence) => sum + sequence.targets.length, 0);
    return { ...sums, targets, sequences: run.outcomes };
  }

  /**
   * Makes one AdamW step with these gradients. Resolves with the norm of the gradients before
   * clipping; rejects without gradients.
   */
  async update(options: UpdateOptions): Promise<number> {
    if (!this.#hasGradients)
      throw new Error('Cannot update: no gradients have been accumulated; call "accumulate" first.');
    this.#hasGradients = false;
    const [norm = NaN] = await this.#callAll((thread) => thread.call("update", options));
    if (Number.isFinite(norm)) return norm;
    throw new Error(
      `Cannot update: the norm of the gradients is ${norm}, expected a finite number. The training diverged and the weights are as they were before; lower the learning rate, or continue from an earlier checkpoint.`,
    );
  }

  /**
   * Computes logprobs and entropies at the targets, without an update. `weights`: weights of
   * another model of this shape.
   */
  async evaluate(
    sequences: readonly TokenTargets[],
    { weights }: { readonly weights?: Float32Array } = {},
  ): Promise<readonly SequenceOutcome[]> {
    if (weights !== undefined && weights.length !== this.#shared.length) {
      throw new RangeError(
        `Cannot evaluate: ${weights.length} weights are given, but the model has ${this.#shared.length} parameters.`,
      );
    }
    const shared = weights === undefined ? null : bufferOf(sharedFloats(weights));
    return (await this.#run(sequences, (thread, passes) => thread.call("evaluate", passes, shared))).outcomes;
  }

  /** A copy of the weights after the last update. */
  weights(): Float32Array {
    return Float32Array.from(this.#shared);
  }

  /** A copy of AdamW's state. */
  async optimizerState(): Promise<OptimizerState> {
    const [state] = await this.#callAll((thread) => thread.call("optimizerState"));
    return state!;
  }

  async close(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.close()));
  }

  /**
   * Runs passes on all threads. Resolves with their results, thread by thread and pass by pass, and
   * the outcomes in the order of the sequences.
   */
  async #run<Sequence extends TokenTargets, Outcome extends { readonly outcomes: readonly SequenceOutcome[] }>(
    sequences: readonly Sequence[],
    run: (thread: TrainerThread, passes: readonly Pass<Sequence>[]) => Promise<readonly Outcome[]>,
  ): Promise<{ readonly passes: readonly Outcome[]; readonly outcomes: readonly SequenceOutcome[] }> {
    checkSequences(sequences, this.config, this.#limits);
    const plans = splitWork(sequences, this.#limits);
    const results = await this.#callAll((thread, place) => {
      const passes = plans[place]!.map(({ members, prefixLength }) => ({
        sequences: members.map((index) => sequences[index]!),
        prefixLength,
      }));
      return run(thread, passes);
    });
    const passes = results.flat();
    const outcomes: SequenceOutcome[] = [];
    for (const [index, { members }] of plans.flat().entries()) {
      members.forEach((member, place) => (outcomes[member] = passes[index]!.outcomes[place]!));
    }
    return { passes, outcomes };
  }

  /** One result for each thread, after all earlier calls. */
  #callAll<T>(call: (thread: TrainerThread, place: number) => Promise<T>): Promise<readonly T[]> {
    const results = this.#last.then(() => Promise.all(this.#threads.map(call)));
    this.#last = results.catch(() => undefined);
    return results;
  }
}

/** Threads run the built file, both from src/ and from dist/. */
const program = new URL("../../dist/learner/trainer-worker.js", import.meta.url);

type Call = { readonly resolve: (result: never) => void; readonly reject: (error: Error) => void };

/** One thread: calls in, results out, in that order. If a thread ends, all its calls reject. */
class TrainerThread {
  readonly #worker: Worker;
  readonly #calls: Call[] = [];
  #fault: Error | null = null;

  constructor(setup: TrainerThreadSetup) {
    this.#worker = new Worker(program, { workerData: setup });
    // Only calls in flight keep the process alive.
    this.#worker.unref();
    this.#worker.on("message", (result: unknown) => {
      this.#calls.shift()?.resolve(result as never);
      if (this.#calls.length === 0) this.#worker.unref();
    });
    this.#worker.on("error", (error) => this.#fail(error instanceof Error ? error : new Error(String(error))));
    this.#worker.on("exit", () => this.#fail(new Error("Cannot train: a thread of the trainer has ended.")));
  }

  call<Name extends keyof TrainerThreadMethods>(
    name: Name,
    ...values: Parameters<TrainerThreadMethods[Name]>
  ): Promise<ReturnType<TrainerThreadMethods[Name]>> {
    if (this.#fault !== null) return Promise.reject(this.#fault);
    return new Promise((resolve, reject) => {
      this.#calls.push({ resolve, reject });
      this.#worker.ref();
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, no window
      this.#worker.postMessage([name, values]);
    });
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  #fail(error: Error): void {
    this.#fault ??= error;
    for (const { reject } of this.#calls.splice(0)) reject(this.#fault);
  }
}

function sharedFloats(values: Float32Array): Float32Array {
  const shared = new Float32Array(new SharedArrayBuffer(values.byteLength));
  shared.set(values);
  return shared;
}

function bufferOf(shared: Float32Array): SharedArrayBuffer {
  return shared.buffer as SharedArrayBuffer;
}

function inRange(name: string, value: number, most: number): number {
  if (Number.isInteger(value) && value >= 1 && value <= most) return value;
  throw new ConfigurationError(`Cannot create a trainer: ${name} is ${value}, expected an integer from 1 to ${most}.`);
}
