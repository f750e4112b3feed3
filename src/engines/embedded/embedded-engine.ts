// The engine with a model of its own: a small Qwen3 on worker threads of this process. It has what a server has (continuous
// batching, a prefix cache, abort, pause, new weights while it runs) and nothing to install or start.

import { randomInt } from "node:crypto";
import { availableParallelism } from "node:os";

import type { Engine, EngineControl } from "../../core/engine.ts";
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
} from "../token-sampling.ts";
import { CallFault, EngineThreads } from "./engine-threads.ts";

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

/** Reads the model folder first. Rejects with a `ConfigurationError` that names the file for one that does not fit. */
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
      throw new RangeError(`Cannot take the weights: there are ${weights.length}, expected ${this.#parameterCount}.`);
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

  /** What goes wrong with a thread is a failure of this engine. */
  async #attributed<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (cause) {
      if (cause instanceof CallFault) throw this.failure("server-error", cause.message, { cause });
      if (this.isClosed) throw this.failure("cancelled", "it was closed");
      throw this.failure("server-error", "a thread of it failed", { cause });
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

/** Behind a protocol front, whose contract it fits by shape: parameters are checked, with defaults filled in. */
export interface EmbeddedSampler {
  sample(
    request: {
      readonly promptIds: Uint32Array;
      /** Without a seed: the engine's own randomness. */
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
  /** Loads the weights of a model folder of the same shape; their version is then for the front to say. */
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
        // What a front answers with this status and message; by shape, as all of this.
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
