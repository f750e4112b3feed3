// The engine with a model of its own: a small Qwen3 on worker threads of this process. It has what a server has (continuous
// batching, a prefix cache, abort, pause, new weights while it runs) and nothing to install or start.

import { randomInt } from "node:crypto";
import { availableParallelism } from "node:os";

import type { Engine, EngineControl, SampleRequest, SampleResult } from "../../core/engine.ts";
import { AttributedError } from "../../core/failure.ts";
import {
  type Checkpoint,
  type CompiledKernels,
  firstNotFinite,
  type ModelConfig,
  readCheckpoint,
} from "../../learner/model/index.ts";
import { deriveSeed } from "../../lib/random.ts";
import {
  engineFailure,
  type FailureMaker,
  readRequest,
  type GenerationParams,
  finishOf,
  inRange,
  unlessCancelled,
} from "../token-sampling.ts";
import { CallFault, EngineThreads } from "./engine-threads.ts";
import type { Finished } from "./scheduler.ts";

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
   * Other weights, as `parameterLayout` orders them; resolves when every thread samples from them. Calls in flight continue
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
  const threads = inRange(
    "an embedded engine",
    "threads",
    options.threads ?? Math.min(8, availableParallelism()),
    [1, 64],
  );
  const maxSequences = inRange("an embedded engine", "maxSequences", options.maxSequences ?? 64, [1, 1024]);
  const cacheTokens = inRange("an embedded engine", "cacheTokens", options.cacheTokens ?? 32_768, [1, 2 ** 24]);
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
    if (signal?.aborted === true) throw embeddedFailure("cancelled", "the caller cancelled it");
    const thread = this.#threads.pick(request.routingKey);
    const { call, finished } = thread.generate(prompt, params, null);
    const live = { requestId: request.requestId, abort: () => thread.abort(call) };
    this.#live.add(live);
    try {
      const done = await this.#attributed(
        unlessCancelled(finished, signal, { cancel: live.abort, failure: embeddedFailure }),
      );
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
      throw new RangeError(`Cannot take the weights: there are ${weights.length}, expected ${this.#parameterCount}.`);
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
    `Cannot take the weights: number ${place} is ${weights[place]}, expected finite numbers; the training diverged: continue from an earlier checkpoint.`,
  );
}

/** As the front has it: checked, with defaults filled in. */
export type EmbeddedSamplerParams = Omit<GenerationParams, "stopTokenIds" | "logitBias" | "seed"> & {
  readonly stopTokenIds: ReadonlySet<number>;
  readonly logitBias: ReadonlyMap<number, number>;
  /** `null`: the engine's own randomness. */
  readonly seed: number | null;
};

export type EmbeddedSamplerRequest = {
  readonly promptIds: Uint32Array;
  readonly params: EmbeddedSamplerParams;
  readonly routingKey: string | null;
};

export type EmbeddedSamplerOptions = {
  readonly signal: AbortSignal;
  readonly onTokens: (ids: ArrayLike<number>, logprobs: ArrayLike<number>) => "continue" | "stop";
};

export type EmbeddedSamplerOutput = {
  readonly ids: Uint32Array;
  readonly logprobs: Float32Array;
  readonly finish: "end" | "abort";
  readonly cachedTokens: number;
  readonly weightVersion: string | null;
};

export interface EmbeddedSampler {
  sample(request: EmbeddedSamplerRequest, options: EmbeddedSamplerOptions): Promise<EmbeddedSamplerOutput>;
  /** Loads the weights of a model folder of the same shape; their version is then for the front to say. */
  updateWeights(modelPath: string): Promise<void>;
  flushCache(): Promise<void>;
  pause(): Promise<void>;
  resume(): Promise<void>;
}

/** What a front answers with this status and message; by shape, as all of this file. */
function refusal(status: number, message: string): Error {
  return Object.assign(new Error(message), { name: "SamplerRefusal", status });
}

function createEmbeddedSampler(
  threads: EngineThreads,
  options: { readonly freshSeed: () => number; readonly parameterCount: number },
): EmbeddedSampler {
  const { freshSeed, parameterCount } = options;
  return {
    sample: async ({ promptIds, params, routingKey }, { signal, onTokens }) => {
      const thread = threads.pick(routingKey);
      const generation: GenerationParams = {
        ...params,
        stopTokenIds: [...params.stopTokenIds],
        logitBias: [...params.logitBias],
        seed: params.seed ?? freshSeed(),
      };
      let isStopped = false;
      const { call, finished } = thread.generate(promptIds.slice(), generation, (ids, logprobs) => {
        if (isStopped || onTokens(ids, logprobs) === "continue") return;
        isStopped = true;
        thread.abort(call);
      });
      const onAbort = (): void => thread.abort(call);
      signal.addEventListener("abort", onAbort, { once: true });
      if (signal.aborted) onAbort();
      try {
        const { ids, logprobs, reason, versions, cachedTokens } = await finished;
        const finish = reason === "abort" && !isStopped ? "abort" : "end";
        const weightVersion = versions.at(-1)?.version ?? threads.weightVersion;
        return { ids, logprobs, finish, cachedTokens, weightVersion };
      } catch (error) {
        throw error instanceof CallFault ? refusal(500, `Cannot sample: ${error.message}.`) : error;
      } finally {
        signal.removeEventListener("abort", onAbort);
      }
    },
    updateWeights: async (modelPath) => {
      const { weights } = await readCheckpoint(modelPath);
      if (weights.length !== parameterCount) {
        throw new Error(
          `The model in "${modelPath}" has ${weights.length} parameters, this server's has ${parameterCount}.`,
        );
      }
      await threads.updateWeights(weights, null);
    },
    flushCache: () => threads.flushCache(),
    pause: () => threads.pause("in-place"),
    resume: () => threads.continue(),
  };
}

function readResult(finished: Finished, promptTokens: number): SampleResult {
  const { ids, logprobs, versions, cachedTokens } = finished;
  return {
    sampledTokens: ids,
    logprobs,
    finish: finishOf(finished.reason, ids),
    weightSpans: versions.map(({ version, count }) => ({ tokenCount: count, dispatch: version, reply: version })),
    usage: { promptTokens, completionTokens: ids.length, cachedTokens },
  };
}
