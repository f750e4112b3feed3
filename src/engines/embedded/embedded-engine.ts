// The engine with its own model: a small Qwen3 on worker threads of this process. It offers what a
// server offers (continuous batching, a prefix cache, abort, pause, weight updates while it runs),
// and there is nothing to install or start.

import { randomInt } from "node:crypto";
import { availableParallelism } from "node:os";

import type { Engine, EngineControl } from "../../core/engine.ts";
import type { Scorer, ScoreRequest } from "../../core/scoring.ts";
import {
  type Checkpoint,
  type CompiledKernels,
  firstNotFinite,
  type ModelConfig,
  readCheckpoint,
} from "../../learner/model/index.ts";
import {
  type GenerateOptions,
  type Generating,
  type GenerationParams,
  InProcessEngine,
  inRange,
  type Scoring,
} from "../token-sampling.ts";
import { CallFault, EngineThreads } from "./engine-threads.ts";

export type EmbeddedEngineOptions = {
  readonly checkpoint: Checkpoint;
  /** Default `null`: the first weights have no version. */
  readonly weightVersion?: string | null;
  /** Number of threads, 1 to 64. Default: one per core, at most 8. */
  readonly threads?: number;
  /**
   * Maximum number of calls that one thread serves concurrently; others wait. 1 to 1,024. Default
   * 64.
   */
  readonly maxSequences?: number;
  /**
   * Number of tokens whose keys and values one thread caches; at least one whole context. Default
   * 32,768.
   */
  readonly cacheTokens?: number;
  /** Base of the seeds for calls without one. Default: different in each process. */
  readonly seed?: number;
  /** Default: the best build for this host. */
  readonly kernels?: CompiledKernels;
};

/** The operations that only this engine has. */
export interface EmbeddedEngine extends Engine, EngineControl {
  score: Scorer["score"];
  readonly config: ModelConfig;
  /** Sampler for the SGLang protocol front. Its calls may be mixed with the engine's own. */
  readonly sampler: EmbeddedSampler;
  /**
   * Replaces the weights, ordered as in `parameterLayout`; resolves when every thread samples from
   * the new ones. Calls in flight continue with them after their keys and values are recomputed;
   * their results name both versions.
   */
  updateWeights(weights: Float32Array, version: string | null): Promise<void>;
  /** Drops the cached prefixes of earlier calls. */
  flushCache(): Promise<void>;
}

/**
 * Maximum number of tokens that a thread computes in one step: large enough for full speed on
 * prompts, small enough not to delay other calls noticeably.
 */
const rowsOfStep = 256;

/**
 * Starts the threads. Throws a `ConfigurationError` for a number out of range. The sampled tokens
 * of a call depend on its prompt, its parameters (seed included) and the weights, never on other
 * calls, threads or the cache.
 *
 * @example
 * const engine = createEmbeddedEngine({ checkpoint: await readCheckpoint("models/small") });
 */
export function createEmbeddedEngine(options: EmbeddedEngineOptions): EmbeddedEngine {
  const { checkpoint, weightVersion = null, kernels } = options;
  refuseNotFinite(checkpoint.weights);
  const maker = "an embedded engine";
  const threads = inRange(maker, "threads", options.threads ?? Math.min(8, availableParallelism()), [1, 64]);
  const maxSequences = inRange(maker, "maxSequences", options.maxSequences ?? 64, [1, 1024]);
  const cacheTokens = inRange(maker, "cacheTokens", options.cacheTokens ?? 32_768, [1, 2 ** 24]);
  const pool = new EngineThreads({
    checkpoint,
    weightVersion,
    threads,
    maxSequences,
    maxRows: Math.max(rowsOfStep, maxSequences),
    cacheTokens,
    kernels,
  });
  return new Embedded(checkpoint, pool, options.seed ?? randomInt(2 ** 32));
}

/**
 * Reads the model folder, then starts the engine. Rejects with a `ConfigurationError` that names
 * the unsuitable file.
 */
export async function loadEmbeddedEngine(
  folder: string,
  options: Omit<EmbeddedEngineOptions, "checkpoint"> = {},
): Promise<EmbeddedEngine> {
  return createEmbeddedEngine({ ...options, checkpoint: await readCheckpoint(folder) });
}

class Embedded extends InProcessEngine implements EmbeddedEngine {
  readonly name = "embedded";
  readonly config: ModelConfig;
  readonly sampler: EmbeddedSampler;
  readonly #threads: EngineThreads;
  readonly #parameterCount: number;

  constructor({ config, weights }: Checkpoint, threads: EngineThreads, seed: number) {
    super("the embedded engine", config, seed);
    this.config = config;
    this.#threads = threads;
    this.#parameterCount = weights.length;
    this.sampler = createEmbeddedSampler(threads, { freshSeed: this.freshSeed, parameterCount: weights.length });
  }

  protected override generate(
    prompt: Uint32Array,
    params: GenerationParams,
    { routingKey, onTokens }: GenerateOptions,
  ): Generating {
    const { finished, abort } = this.#threads.pick(routingKey).generate(prompt, params, onTokens);
    return { finished: this.#attributed(finished), abort };
  }

  protected override scoreTokens(request: ScoreRequest): Scoring {
    const { finished, abort } = this.#threads.pick(request.routingKey).score(request);
    return { finished: this.#attributed(finished, this.scoreFailure), abort };
  }

  async health(): Promise<boolean> {
    return !this.isClosed && this.#threads.areAlive;
  }

  async weightVersion(): Promise<string | null> {
    return this.#threads.weightVersion;
  }

  pause(mode: "abort" | "retract" | "in-place"): Promise<void> {
    return this.#attributed(this.#threads.order({ type: "pause", mode }));
  }

  continue(): Promise<void> {
    return this.#attributed(this.#threads.order({ type: "continue" }));
  }

  async updateWeights(weights: Float32Array, version: string | null): Promise<void> {
    if (weights.length !== this.#parameterCount) {
      throw new RangeError(`Cannot load the weights: there are ${weights.length}, expected ${this.#parameterCount}.`);
    }
    refuseNotFinite(weights);
    await this.#attributed(this.#threads.updateWeights(weights, version));
  }

  flushCache(): Promise<void> {
    return this.#attributed(this.#threads.order({ type: "flush-cache" }));
  }

  async close(): Promise<void> {
    this.isClosed = true;
    await this.#threads.close();
  }

  /** A fault of a thread becomes a failure of this engine. */
  async #attributed<T>(work: Promise<T>, failure = this.failure): Promise<T> {
    try {
      return await work;
    } catch (cause) {
      if (cause instanceof CallFault) throw failure("server-error", cause.message, { cause });
      if (this.isClosed) throw failure("cancelled", "it was closed");
      throw failure("server-error", "a thread of it failed", { cause });
    }
  }
}

/** A diverged model would make every token equally likely, without any error. */
function refuseNotFinite(weights: Float32Array): void {
  const place = firstNotFinite(weights);
  if (place < 0) return;
  throw new RangeError(
    `Cannot load the weights: number ${place} is ${weights[place]}, expected finite numbers; the training diverged: continue from an earlier checkpoint.`,
  );
}

/**
 * Sampler behind a protocol front, structurally compatible with the front's contract: parameters
 * are validated, with defaults filled in.
 */
export interface EmbeddedSampler {
  sample(
    request: {
      readonly promptIds: Uint32Array;
      /** Without a seed, the engine uses its own randomness. */
      readonly params: Omit<GenerationParams, "seed"> & { readonly seed: number | null };
      readonly routingKey: string | null;
    },
    options: {
      readonly signal: AbortSignal;
      readonly onTokens: (ids: ArrayLike<number>, logprobs: ArrayLike<number>) => "continue" | "stop";
    },
  ): Promise<{
    readonly ids: Uint32Array;
    readonly logprobs: Float32Array;
    readonly finish: "end" | "abort";
    readonly cachedTokens: number;
    readonly weightVersion: string | null;
  }>;
  /**
   * Loads the weights of a model folder of the same shape; the front then keeps track of their
   * version.
   */
  updateWeights(modelPath: string): Promise<void>;
  flushCache(): Promise<void>;
  pause(): Promise<void>;
  resume(): Promise<void>;
}

function createEmbeddedSampler(
  threads: EngineThreads,
  { freshSeed, parameterCount }: { readonly freshSeed: () => number; readonly parameterCount: number },
): EmbeddedSampler {
  return {
    sample: async ({ promptIds, params, routingKey }, { signal, onTokens }) => {
      let isStopped = false;
      const seeded = { ...params, seed: params.seed ?? freshSeed() };
      const { finished, abort } = threads.pick(routingKey).generate(promptIds.slice(), seeded, (ids, logprobs) => {
        if (isStopped || onTokens(ids, logprobs) === "continue") return;
        isStopped = true;
        abort();
      });
      signal.addEventListener("abort", abort, { once: true });
      if (signal.aborted) abort();
      try {
        const { ids, logprobs, reason, versions, cachedTokens } = await finished;
        const finish = reason === "abort" && !isStopped ? "abort" : "end";
        const weightVersion = versions.at(-1)?.version ?? threads.weightVersion;
        return { ids, logprobs, finish, cachedTokens, weightVersion };
      } catch (error) {
        if (!(error instanceof CallFault)) throw error;
        // A front answers a `SamplerRefusal` with this status and message; it is recognised
        // structurally, like the whole contract.
        throw Object.assign(new Error(`Cannot sample: ${error.message}.`), { name: "SamplerRefusal", status: 500 });
      } finally {
        signal.removeEventListener("abort", abort);
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
    flushCache: () => threads.order({ type: "flush-cache" }),
    pause: () => threads.order({ type: "pause", mode: "in-place" }),
    resume: () => threads.order({ type: "continue" }),
  };
}
