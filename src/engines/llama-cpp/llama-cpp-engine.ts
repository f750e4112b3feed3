// The engine for a GGUF file: llama.cpp computes logits in this process, and all sampling is our
// own code, so that ids, logprobs and seeds mean the same as in the other engines. The weights
// never change after loading.

import { randomInt } from "node:crypto";
import { stat } from "node:fs/promises";
import { availableParallelism } from "node:os";

import type { Engine, EngineControl } from "../../core/engine.ts";
import { ConfigurationError } from "../../core/failure.ts";
import type { EngineActivity, EngineActivitySource, EpisodeHolder } from "../../core/local-engine.ts";
import type { Scorer, ScoreRequest } from "../../core/scoring.ts";
import {
  type Generated,
  type GenerateOptions,
  type Generating,
  type GenerationParams,
  InProcessEngine,
  inRange,
  type ModelLimits,
  type Scoring,
} from "../token-sampling.ts";
import { ActivityCounter } from "./activity.ts";
import { generate } from "./generate.ts";
import {
  installCommand,
  type Llama,
  type LlamaContext,
  type LlamaLibrary,
  type LlamaModel,
  loadLlamaLibrary,
} from "./llama-library.ts";
import { Rows } from "./rows.ts";
import { score } from "./score.ts";
import { type SequenceLease, SequencePool } from "./sequence-pool.ts";
import { takeTurns } from "./taking-turns.ts";

export type LlamaCppEngineOptions = {
  /** The GGUF file. */
  readonly modelPath: string;
  /**
   * Number of calls that are sampled concurrently; others wait. Memory for keys and values grows
   * with it. 1 to 256, or a function that decides once the device is known (`false`: the processor).
   * Default 8.
   */
  readonly sequences?: number | ((gpu: string | false) => number);
  /**
   * Maximum number of tokens of prompt and answer together. At least 2. Default: the context length
   * that the model was trained with, at most 8,192.
   */
  readonly contextTokens?: number;
  /**
   * Number of threads, 1 to 1,024. Default: number of cores minus one. Threads wait for each other
   * by spinning: with more threads than free cores, a token takes seconds.
   */
  readonly threads?: number;
  /**
   * The device for computation, as named by the library. Default "auto": a graphics card if the
   * library finds one.
   */
  readonly gpu?: "auto" | "cuda" | "vulkan" | "metal" | false;
  /**
   * Bits per key or value. 16 is llama.cpp's own default and changes logprobs by hundredths; 32
   * takes twice the memory. Default 16.
   */
  readonly cacheBits?: 16 | 32;
  /**
   * A GGUF file with an adapter (LoRA) of this model, such as `train` writes into its checkpoints.
   * Default: none.
   */
  readonly adapterPath?: string;
  /** Default `null`: the weights have no version. */
  readonly weightVersion?: string | null;
  /** Base of the seeds for calls without one. Default: different in each process. */
  readonly seed?: number;
  /** The module `node-llama-cpp`. Default: the one that is installed next to this package. */
  readonly library?: LlamaLibrary;
};

/** The operations that only this engine has. */
export interface LlamaCppEngine extends Engine, EpisodeHolder, EngineActivitySource, Pick<EngineControl, "abort"> {
  score: Scorer["score"];
  readonly limits: ModelLimits;
}

/** Name of the engine in messages. */
const maker = "an engine of llama.cpp";

/**
 * Loads the model. Rejects with a `ConfigurationError` if the package or the file is missing, or if
 * the model cannot be loaded. The tokenizer must be the model's own: the engine does not check the
 * meaning of ids.
 *
 * @example
 * const engine = await createLlamaCppEngine({ modelPath: "Qwen3-0.6B-Q8_0.gguf" });
 */
export async function createLlamaCppEngine(options: LlamaCppEngineOptions): Promise<LlamaCppEngine> {
  const { modelPath, adapterPath, gpu = "auto", cacheBits = 16 } = options;
  const sequencesOn = (device: string | false): number => {
    const given = typeof options.sequences === "function" ? options.sequences(device) : options.sequences;
    return inRange(maker, "sequences", given ?? 8, [1, 256]);
  };
  if (typeof options.sequences === "number") sequencesOn(false);
  const contextTokens = options.contextTokens === undefined ? null : inRange(maker, "contextTokens", options.contextTokens, [2, 2 ** 24]); // prettier-ignore
  const threads = inRange(maker, "threads", options.threads ?? Math.max(1, availableParallelism() - 1), [1, 1024]);
  await checkFile(modelPath);
  if (adapterPath !== undefined) await checkFile(adapterPath);
  const library = options.library ?? (await loadLlamaLibrary());
  const opened: { dispose(): Promise<void> }[] = [];
  try {
    const llama: Llama = await library
      .getLlama({ gpu, build: "never", logLevel: "error", maxThreads: threads })
      .catch((cause: unknown) => {
        const reason = cause instanceof Error ? cause.message : String(cause);
        throw new ConfigurationError(
          `Cannot use llama.cpp: its build for this platform does not load (${reason}); run "${installCommand()}", or try again when the machine is less busy.`,
          { cause },
        );
      });
    opened.push(llama);
    const sequences = sequencesOn(llama.gpu);
    const model: LlamaModel = await llama.loadModel({ modelPath });
    opened.push(model);
    const contextLength = contextTokens ?? Math.min(8192, model.trainContextSize);
    const context: LlamaContext = await model.createContext({
      contextSize: contextLength,
      sequences,
      threads,
      ...(adapterPath === undefined ? {} : { lora: { adapters: [{ filePath: adapterPath }] } }),
      ...(cacheBits === 32
        ? { flashAttention: false, experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32" }
        : {}),
    });
    opened.push(context);
    let vocabularySize = 0;
    for (const token of model.iterateAllTokens()) vocabularySize = Math.max(vocabularySize, token + 1);
    const pool = new SequencePool(takeTurns(Array.from({ length: sequences }, () => context.getSequence())));
    return new LlamaCpp(pool, {
      rows: new Rows(context, vocabularySize),
      limits: { vocabularySize, contextLength: Math.min(contextLength, context.contextSize) },
      weightVersion: options.weightVersion ?? null,
      seed: options.seed ?? randomInt(2 ** 32),
      dispose: () => disposeAll(opened),
    });
  } catch (error) {
    await disposeAll(opened);
    if (error instanceof ConfigurationError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigurationError(
      `Cannot load "${modelPath}" with llama.cpp: ${reason.replace(/\.$/, "")}; use a GGUF file that this version can read, and a context that fits into memory.`,
      { cause: error },
    );
  }
}

class LlamaCpp extends InProcessEngine implements LlamaCppEngine {
  readonly name = "llama-cpp";
  readonly limits: ModelLimits;
  readonly mostEpisodes: number;
  readonly #pool: SequencePool;
  readonly #rows: Rows;
  readonly #activity = new ActivityCounter();
  readonly #weightVersion: string | null;
  readonly #dispose: () => Promise<void>;
  #closing: Promise<void> | null = null;

  constructor(
    pool: SequencePool,
    parts: {
      readonly rows: Rows;
      readonly limits: ModelLimits;
      readonly weightVersion: string | null;
      readonly seed: number;
      readonly dispose: () => Promise<void>;
    },
  ) {
    super("llama.cpp", parts.limits, parts.seed);
    this.#pool = pool;
    this.#rows = parts.rows;
    this.limits = parts.limits;
    this.mostEpisodes = pool.size;
    this.#weightVersion = parts.weightVersion;
    this.#dispose = parts.dispose;
  }

  close(): Promise<void> {
    this.isClosed = true;
    // The library must not be disposed while calls are in flight.
    this.#closing ??= this.abortAll().then(this.#dispose);
    return this.#closing;
  }

  activity(): EngineActivity {
    return this.#activity.current;
  }

  endEpisode(routingKey: string): void {
    this.#pool.end(routingKey);
  }

  protected override generate(prompt: Uint32Array, params: GenerationParams, options: GenerateOptions): Generating {
    const ending = new AbortController();
    const finished = this.#generate(prompt, params, { ...options, signal: ending.signal });
    return { finished, abort: () => ending.abort() };
  }

  async #generate(
    prompt: Uint32Array,
    params: GenerationParams,
    { routingKey, onTokens, signal }: GenerateOptions & { readonly signal: AbortSignal },
  ): Promise<Generated> {
    const own = { rows: this.#rows, weightVersion: this.#weightVersion, activity: this.#activity };
    const work = (lease: SequenceLease): Promise<Generated> =>
      generate(lease, { prompt, params, onTokens, signal, ...own });
    return (await this.#onSequence({ routingKey, tokens: prompt, signal, failure: this.failure }, work)) ?? neverBegun;
  }

  protected override scoreTokens(request: ScoreRequest): Scoring {
    const ending = new AbortController();
    const { signal } = ending;
    const { routingKey, tokens } = request;
    const [rows, weightVersion] = [this.#rows, this.#weightVersion];
    const finished = this.#onSequence({ routingKey, tokens, signal, failure: this.scoreFailure }, (lease) =>
      score(lease, { request, rows, weightVersion, signal }),
    );
    return { finished, abort: () => ending.abort() };
  }

  /** The result of the work on a sequence; `null` if it was aborted before it had one. */
  async #onSequence<T>(
    {
      routingKey,
      tokens,
      signal,
      failure,
    }: {
      readonly routingKey: string | null;
      readonly tokens: Uint32Array;
      readonly signal: AbortSignal;
      readonly failure: LlamaCpp["failure"];
    },
    work: (lease: SequenceLease) => Promise<T>,
  ): Promise<T | null> {
    let result: T | null = null;
    try {
      const lease = await this.#pool.acquire(routingKey, tokens, signal);
      let isSound = false;
      try {
        result = await work(lease);
        isSound = true;
      } finally {
        lease.release(isSound);
      }
    } catch (cause) {
      const state = `it failed (${cause instanceof Error ? cause.message : String(cause)})`;
      if (!signal.aborted || cause !== signal.reason) throw failure("server-error", state, { retryable: true, cause });
    }
    if (this.isClosed) throw failure("cancelled", "it was closed");
    return result;
  }
}

/** The result of a generation that was aborted before it had a sequence. */
const neverBegun: Generated = {
  reason: "abort",
  ids: new Uint32Array(0),
  logprobs: new Float32Array(0),
  mask: null,
  versions: [],
  cachedTokens: 0,
};

async function checkFile(path: string): Promise<void> {
  const found = await stat(path).catch(() => null);
  if (found?.isFile() === true) return;
  throw new ConfigurationError(
    `Cannot load "${path}" with llama.cpp: ${found === null ? "there is no such file" : "it is not a file"}; pass the path of a GGUF file.`,
  );
}

/**
 * Disposes in reverse order of opening. Errors are ignored, because the object is unusable either
 * way.
 */
async function disposeAll(opened: readonly { dispose(): Promise<void> }[]): Promise<void> {
  for (const each of [...opened].reverse()) await each.dispose().catch(() => undefined);
}
