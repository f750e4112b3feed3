// The engine with a model of its own: a small Qwen3 on worker threads of this process. It has what a server has (continuous
// batching, a prefix cache, abort, pause, new weights while it runs) and nothing to install or start.

import { randomInt } from "node:crypto";
import { availableParallelism } from "node:os";

import type { Engine, EngineControl, SampleRequest, SampleResult } from "../../core/engine.ts";
import { AttributedError, ConfigurationError } from "../../core/failure.ts";
import { deriveSeed } from "../../lib/random.ts";
import {
  type Checkpoint,
  type CompiledKernels,
  firstNotFinite,
  type ModelConfig,
  readCheckpoint,
} from "../../learner/model/index.ts";
import { createEmbeddedSampler, type EmbeddedSampler } from "./embedded-sampler.ts";
import { CallFault, type EngineThread } from "./engine-thread.ts";
import { EngineThreads } from "./engine-threads.ts";
import { engineFailure, type FailureMaker, readRequest } from "../../sampling/index.ts";
import { readResult } from "./read-result.ts";

export type EmbeddedEngineOptions = {
  readonly checkpoint: Checkpoint;
  /** Default `null`: the first weights have none. */
  readonly weightVersion?: string | null;
  /** 1 to 64. Default: one for each core, 8 at most. */
  readonly threads?: number;
  /** Most calls that one thread serves at a time; others wait. 1 to 1,024. Default 64. */
  readonly maxSequences?: number;
  /** Tokens whose keys and values one thread keeps, a whole context at least. Default 32,768. */
  readonly cacheTokens?: number;
  /** Of calls that bring no seed. Default: another one in each process. */
  readonly seed?: number;
  /** Default: the best build for this host. */
  readonly kernels?: CompiledKernels;
};

/** What only this engine has. */
export interface EmbeddedEngine extends Engine, EngineControl {
  readonly config: ModelConfig;
  /** For the SGLang protocol front. Its calls and the engine's own may be mixed. */
  readonly sampler: EmbeddedSampler;
  /**
   * Other weights, as `parameterLayout` orders them; resolves when every thread samples from them. Calls under way go on
   * with them, over keys and values that are computed again; their results name both versions.
   */
  updateWeights(weights: Float32Array, version: string | null): Promise<void>;
  /** Forgets the prefixes of earlier calls. */
  flushCache(): Promise<void>;
}

/** Tokens that a thread computes in one step: large enough for full speed on prompts, small enough not to be felt. */
const rowsOfStep = 256;

/**
 * Starts the threads. Throws a `ConfigurationError` for a number out of range. What a call samples depends on its prompt,
 * its parameters (seed included) and the weights, never on other calls, threads or the cache.
 *
 * @example
 * const engine = createEmbeddedEngine({ checkpoint: await readCheckpoint("models/small") });
 */
export function createEmbeddedEngine(options: EmbeddedEngineOptions): EmbeddedEngine {
  const { checkpoint, weightVersion = null, kernels } = options;
  refuseNotFinite(checkpoint.weights);
  const threads = inRange("threads", options.threads ?? Math.min(8, availableParallelism()), 64);
  const maxSequences = inRange("maxSequences", options.maxSequences ?? 64, 1024);
  const cacheTokens = inRange("cacheTokens", options.cacheTokens ?? 32_768, 2 ** 24);
  const pool = new EngineThreads({
    checkpoint,
    weightVersion,
    threads,
    maxSequences,
    maxRows: Math.max(rowsOfStep, maxSequences),
    cacheTokens,
    ...(kernels === undefined ? {} : { kernels }),
  });
  return new Embedded(checkpoint, pool, options.seed ?? randomInt(2 ** 32));
}

/** Reads the model folder first. Rejects with a `ConfigurationError` that names the file for one that does not fit. */
export async function loadEmbeddedEngine(
  folder: string,
  options: Omit<EmbeddedEngineOptions, "checkpoint"> = {},
): Promise<EmbeddedEngine> {
  return createEmbeddedEngine({ ...options, checkpoint: await readCheckpoint(folder) });
}

const embeddedFailure: FailureMaker = engineFailure("the embedded engine");

type LiveCall = { readonly requestId: string; readonly abort: () => void };

class Embedded implements EmbeddedEngine {
  readonly name = "embedded";
  readonly config: ModelConfig;
  readonly sampler: EmbeddedSampler;
  readonly #threads: EngineThreads;
  readonly #parameterCount: number;
  readonly #freshSeed: () => number;
  readonly #live = new Set<LiveCall>();
  #isClosed = false;

  constructor({ config, weights }: Checkpoint, threads: EngineThreads, seed: number) {
    let calls = 0;
    this.config = config;
    this.#threads = threads;
    this.#parameterCount = weights.length;
    this.#freshSeed = () => deriveSeed(seed, "call", calls++);
    this.sampler = createEmbeddedSampler(threads, {
      freshSeed: this.#freshSeed,
      parameterCount: weights.length,
    });
  }

  async sample(request: SampleRequest, options: { readonly signal?: AbortSignal } = {}): Promise<SampleResult> {
    const { signal } = options;
    if (this.#isClosed) throw embeddedFailure("cancelled", "it was closed");
    const { prompt, params } = readRequest(request, this.config, {
      freshSeed: this.#freshSeed,
      failure: embeddedFailure,
    });
    if (signal?.aborted === true) throw cancelled();
    const thread = this.#threads.pick(request.routingKey);
    const { call, finished } = thread.generate(prompt, params, null);
    const live = { requestId: request.requestId, abort: () => thread.abort(call) };
    this.#live.add(live);
    try {
      const done = await this.#attributed(unlessCancelled(finished, { signal, thread, call }));
      return readResult(done, prompt.length);
    } finally {
      this.#live.delete(live);
    }
  }

  async health(): Promise<boolean> {
    return !this.#isClosed && this.#threads.areAlive;
  }

  async weightVersion(): Promise<string | null> {
    return this.#threads.weightVersion;
  }

  async abort(requestId: string): Promise<void> {
    for (const live of this.#live) if (live.requestId === requestId) live.abort();
  }

  pause(mode: "abort" | "retract" | "in-place"): Promise<void> {
    return this.#attributed(this.#threads.pause(mode));
  }

  continue(): Promise<void> {
    return this.#attributed(this.#threads.continue());
  }

  async updateWeights(weights: Float32Array, version: string | null): Promise<void> {
    if (weights.length !== this.#parameterCount) {
      throw new RangeError(`Cannot take the weights: there are ${weights.length}, ${this.#parameterCount} wanted.`);
    }
    refuseNotFinite(weights);
    await this.#attributed(this.#threads.updateWeights(weights, version));
  }

  flushCache(): Promise<void> {
    return this.#attributed(this.#threads.flushCache());
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#threads.close();
  }

  /** What goes wrong with a thread is a failure of this engine. */
  async #attributed<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      if (error instanceof AttributedError) throw error;
      if (error instanceof CallFault) throw embeddedFailure("server-error", error.message, { cause: error });
      throw this.#isClosed
        ? embeddedFailure("cancelled", "it was closed")
        : embeddedFailure("server-error", "a thread of it failed", { cause: error });
    }
  }
}

/** Of a diverged model every token would be as likely as any other, and nothing would say so. */
function refuseNotFinite(weights: Float32Array): void {
  const place = firstNotFinite(weights);
  if (place < 0) return;
  throw new RangeError(
    `Cannot take the weights: number ${place} is ${weights[place]}, finite numbers wanted; the training diverged: go on from an earlier checkpoint.`,
  );
}

/** Rejects as soon as the signal aborts; the thread then ends the call too. */
function unlessCancelled<T>(
  finished: Promise<T>,
  options: { readonly signal: AbortSignal | undefined; readonly thread: EngineThread; readonly call: number },
): Promise<T> {
  const { signal, thread, call } = options;
  if (signal === undefined) return finished;
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => {
      thread.abort(call);
      reject(cancelled());
    };
    signal.addEventListener("abort", onAbort, { once: true });
    finished.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

function cancelled(): AttributedError {
  return embeddedFailure("cancelled", "the caller cancelled it");
}

function inRange(name: string, value: number, most: number): number {
  if (Number.isInteger(value) && value >= 1 && value <= most) return value;
  throw new ConfigurationError(
    `Cannot make an embedded engine: ${name} is ${value}, an integer from 1 to ${most} wanted.`,
  );
}
