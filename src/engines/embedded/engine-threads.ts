// The threads of an engine: each has the whole model and its own cache, and generations are
// distributed over them. The outcome of a generation does not depend on its thread, so the choice
// only affects speed: calls with the same routing key stay on the thread that has their prefix
// cached, others go to the thread with the fewest calls in flight.

import { Worker } from "node:worker_threads";

import {
  type Checkpoint,
  type CompiledKernels,
  loadKernels,
  pageTokens,
  type ModelConfig,
} from "../../learner/model/index.ts";
import type { ScoreRequest, ScoreResult } from "../../core/scoring.ts";
import type { Generated, Generating, GenerationParams, Scoring } from "../token-sampling.ts";

/** The path works from both src/ and dist/: threads always run the build output. */
const program = new URL("../../../dist/engines/embedded/worker-main.js", import.meta.url);

/** One call failed; its thread continues. */
export class CallFault extends Error {}

type OnTokens = (ids: readonly number[], logprobs: readonly number[]) => void;

/** Initial data of a thread. */
export type ThreadSetup = {
  readonly config: ModelConfig;
  readonly kernels: CompiledKernels;
  /**
   * Memory shared with the engine, which writes new weights there before it sends the order to use
   * them.
   */
  readonly weights: SharedArrayBuffer;
  readonly weightVersion: string | null;
  readonly maxRows: number;
  readonly maxSequences: number;
  readonly pages: number;
};

/** A thread answers an order with "done" once it has taken effect. */
type Order =
  | { readonly type: "pause"; readonly mode: "abort" | "retract" | "in-place" }
  | { readonly type: "continue" }
  | { readonly type: "take-weights"; readonly weightVersion: string | null }
  | { readonly type: "flush-cache" };

type GenerateOrder = {
  readonly type: "generate";
  readonly prompt: Uint32Array;
  readonly params: GenerationParams;
  /** True if tokens are reported as they are sampled. */
  readonly streams: boolean;
};

type ScoreOrder = { readonly type: "score"; readonly request: Pick<ScoreRequest, "tokens" | "from" | "topTokens"> };

/** The result of a generation or a score; `null` for other orders, and for an aborted score. */
type Outcome = Generated | ScoreResult | null;

/** `id` identifies the order in messages; an abort carries the id of its call. */
export type ToThread = (Order | GenerateOrder | ScoreOrder | { readonly type: "abort" }) & { readonly id: number };

export type FromThread =
  | { readonly type: "tokens"; readonly id: number; readonly ids: number[]; readonly logprobs: number[] }
  | { readonly type: "done"; readonly id: number; readonly finished: Outcome }
  /** One call cannot be carried out; the thread continues. */
  | { readonly type: "failed"; readonly id: number; readonly problem: string };

type Waiting = {
  readonly resolve: (finished: Outcome) => void;
  readonly reject: (error: Error) => void;
  readonly onTokens: OnTokens | null;
};

class EngineThread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  #next = 0;
  #fault: Error | null = null;

  constructor(setup: ThreadSetup) {
    this.#worker = new Worker(program, { workerData: setup });
    // Only work in flight keeps the process alive.
    this.#worker.unref();
    this.#worker.on("message", (message: FromThread) => this.#receive(message));
    this.#worker.on("error", (error) => this.#fail(error instanceof Error ? error : new Error(String(error))));
    this.#worker.on("exit", () => this.#fail(new Error("Its thread has ended.")));
  }

  /** Number of orders in flight, nearly all of them generations. */
  get load(): number {
    return this.#waiting.size;
  }

  get isAlive(): boolean {
    return this.#fault === null;
  }

  generate(prompt: Uint32Array, params: GenerationParams, onTokens: OnTokens | null): Generating {
    const abort = this.#abortNext();
    const finished = this.order({ type: "generate", prompt, params, streams: onTokens !== null }, onTokens);
    return { finished: finished as Promise<Generated>, abort };
  }

  score({ tokens, from, topTokens }: ScoreRequest): Scoring {
    const abort = this.#abortNext();
    const finished = this.order({ type: "score", request: { tokens, from, topTokens } });
    return { finished: finished as Promise<ScoreResult | null>, abort };
  }

  /** Aborts the call that is ordered next. */
  #abortNext(): () => void {
    const id = this.#next;
    return () => {
      if (this.#waiting.has(id)) this.#send({ type: "abort", id });
    };
  }

  /** Resolves when the order has taken effect. */
  order(order: Order | GenerateOrder | ScoreOrder, onTokens: OnTokens | null = null): Promise<Outcome> {
    const id = this.#next++;
    const done = new Promise<Outcome>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, onTokens });
    });
    this.#send({ ...order, id });
    return done;
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  #send(message: ToThread): void {
    if (this.#fault === null) {
      this.#worker.ref();
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, no window
      this.#worker.postMessage(message);
    } else {
      this.#fail(this.#fault);
    }
  }

  #receive(message: FromThread): void {
    const waiting = this.#waiting.get(message.id);
    if (message.type === "tokens") {
      waiting?.onTokens?.(message.ids, message.logprobs);
      return;
    }
    this.#waiting.delete(message.id);
    if (message.type === "done") waiting?.resolve(message.finished);
    else waiting?.reject(new CallFault(message.problem));
    if (this.#waiting.size === 0) this.#worker.unref();
  }

  #fail(error: Error): void {
    this.#fault ??= error;
    for (const waiting of this.#waiting.values()) waiting.reject(this.#fault);
    this.#waiting.clear();
  }
}

type ThreadOptions = {
  readonly checkpoint: Checkpoint;
  readonly weightVersion: string | null;
  readonly threads: number;
  /** Maximum number of generations that run concurrently on one thread. */
  readonly maxSequences: number;
  /** Maximum number of tokens that one thread computes in one step; at least `maxSequences`. */
  readonly maxRows: number;
  /** Number of tokens whose keys and values one thread caches; at least one whole context. */
  readonly cacheTokens: number;
  readonly kernels: CompiledKernels | undefined;
};

/** Maximum number of remembered routing keys; the least recently used are evicted first. */
const maxKeys = 10_000;

export class EngineThreads {
  readonly #threads: readonly EngineThread[];
  readonly #shared: Float32Array;
  readonly #homes = new Map<string, EngineThread>();
  /** Settles when the last update of the weights is done; updates run one after the other. */
  #exchange: Promise<void> = Promise.resolve();
  #version: string | null;

  constructor(options: ThreadOptions) {
    const { checkpoint, weightVersion, threads, maxSequences, maxRows, cacheTokens, kernels = loadKernels() } = options;
    const { config, weights } = checkpoint;
    const buffer = new SharedArrayBuffer(weights.byteLength);
    this.#shared = new Float32Array(buffer);
    this.#shared.set(weights);
    this.#version = weightVersion;
    const pages = Math.ceil(Math.max(cacheTokens, config.contextLength) / pageTokens);
    const setup = { config, kernels, weights: buffer, weightVersion, maxRows, maxSequences, pages };
    this.#threads = Array.from({ length: threads }, () => new EngineThread(setup));
  }

  get areAlive(): boolean {
    return this.#threads.every((thread) => thread.isAlive);
  }

  /** The version of the weights that new generations start with. */
  get weightVersion(): string | null {
    return this.#version;
  }

  /** The thread for a call. */
  pick(routingKey: string | null): Pick<EngineThread, "generate" | "score"> {
    const home = routingKey === null ? undefined : this.#homes.get(routingKey);
    const thread = home ?? this.#threads.reduce((least, other) => (other.load < least.load ? other : least));
    if (routingKey !== null) {
      this.#homes.delete(routingKey);
      this.#homes.set(routingKey, thread);
      if (this.#homes.size > maxKeys) this.#homes.delete(this.#homes.keys().next().value!);
    }
    return thread;
  }

  /** Resolves when the order has taken effect on every thread. */
  async order(order: Order): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.order(order)));
  }

  /** Resolves when every thread samples from these weights. The array may be changed afterwards. */
  updateWeights(weights: Float32Array, version: string | null): Promise<void> {
    const update = this.#updateAfter(this.#exchange, weights, version);
    this.#exchange = update.catch(() => undefined);
    return update;
  }

  async #updateAfter(earlier: Promise<void>, weights: Float32Array, version: string | null): Promise<void> {
    await earlier;
    this.#shared.set(weights);
    await this.order({ type: "take-weights", weightVersion: version });
    this.#version = version;
  }

  async close(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.close()));
  }
}
