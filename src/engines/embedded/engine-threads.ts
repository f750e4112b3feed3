// The threads of an engine: each has the whole model and a cache of its own, and generations are spread over them. A
// generation's outcome does not depend on its thread, so the choice is only about speed: calls with one routing key stay on
// the thread whose cache knows their beginning, others go where the fewest are in flight.

import { Worker } from "node:worker_threads";

import {
  type Checkpoint,
  type CompiledKernels,
  loadKernels,
  pageTokens,
  type ModelConfig,
} from "../../learner/model/index.ts";
import type { Generated, Generating, GenerationParams } from "../token-sampling.ts";

/** From src/ and from dist/ alike: threads run what was built. */
const program = new URL("../../../dist/engines/embedded/worker-main.js", import.meta.url);

/** One call failed, of a thread that continues. */
export class CallFault extends Error {}

type OnTokens = (ids: readonly number[], logprobs: readonly number[]) => void;

/** What a thread is born with. */
export type ThreadSetup = {
  readonly config: ModelConfig;
  readonly kernels: CompiledKernels;
  /** Shared with the engine, which writes new weights there before it says so. */
  readonly weights: SharedArrayBuffer;
  readonly weightVersion: string | null;
  readonly maxRows: number;
  readonly maxSequences: number;
  readonly pages: number;
};

/** Answered with "done" when it has taken effect. */
type Order =
  | { readonly type: "pause"; readonly mode: "abort" | "retract" | "in-place" }
  | { readonly type: "continue" }
  | { readonly type: "take-weights"; readonly weightVersion: string | null }
  | { readonly type: "flush-cache" };

type GenerateOrder = {
  readonly type: "generate";
  readonly prompt: Uint32Array;
  readonly params: GenerationParams;
  /** Whether tokens are reported as they come. */
  readonly streams: boolean;
};

/** `id` names the order in messages; that of an abort is the generation's. */
export type ToThread = (Order | GenerateOrder | { readonly type: "abort" }) & { readonly id: number };

export type FromThread =
  | { readonly type: "tokens"; readonly id: number; readonly ids: number[]; readonly logprobs: number[] }
  /** `finished`: of a generation. */
  | { readonly type: "done"; readonly id: number; readonly finished: Generated | null }
  /** One generation cannot be carried out; the thread continues. */
  | { readonly type: "failed"; readonly id: number; readonly problem: string };

type Waiting = {
  readonly resolve: (finished: Generated | null) => void;
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

  /** Orders in flight, nearly all of them generations. */
  get load(): number {
    return this.#waiting.size;
  }

  get isAlive(): boolean {
    return this.#fault === null;
  }

  generate(prompt: Uint32Array, params: GenerationParams, onTokens: OnTokens | null): Generating {
    const id = this.#next;
    const finished = this.order({ type: "generate", prompt, params, streams: onTokens !== null }, onTokens);
    const abort = (): void => {
      if (this.#waiting.has(id)) this.#send({ type: "abort", id });
    };
    return { finished: finished as Promise<Generated>, abort };
  }

  /** Resolves when the order has taken effect. */
  order(order: Order | GenerateOrder, onTokens: OnTokens | null = null): Promise<Generated | null> {
    const id = this.#next++;
    const done = new Promise<Generated | null>((resolve, reject) => {
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
  /** Most generations that run at a time on one thread. */
  readonly maxSequences: number;
  /** Most tokens that one thread computes in one step; at least `maxSequences`. */
  readonly maxRows: number;
  /** Tokens whose keys and values one thread keeps; a whole context at least. */
  readonly cacheTokens: number;
  readonly kernels: CompiledKernels | undefined;
};

/** Routing keys that are remembered; the longest unused are forgotten first. */
const maxKeys = 10_000;

export class EngineThreads {
  readonly #threads: readonly EngineThread[];
  readonly #shared: Float32Array;
  readonly #homes = new Map<string, EngineThread>();
  /** Settles when the last exchange of weights is done; they go one after the other. */
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

  /** Of the weights that generations begun now start with. */
  get weightVersion(): string | null {
    return this.#version;
  }

  /** The thread for a call. */
  pick(routingKey: string | null): Pick<EngineThread, "generate"> {
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
