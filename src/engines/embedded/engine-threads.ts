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
import type { GenerationParams } from "../token-sampling.ts";
import type { Finished } from "./scheduler.ts";

/** From src/ and from dist/ alike: threads run what was built. */
const program = new URL("../../../dist/engines/embedded/worker-main.js", import.meta.url);

type ThreadCall = {
  readonly call: number;
  readonly finished: Promise<Finished>;
};

/** One call failed, of a thread that continues. */
export class CallFault extends Error {}

type OnTokens = (ids: readonly number[], logprobs: readonly number[]) => void;

type Waiting = {
  readonly resolve: (finished: Finished) => void;
  readonly reject: (error: Error) => void;
  readonly onTokens: OnTokens | null;
};

/** An order without its number. */
type Order =
  | { readonly type: "pause"; readonly mode: PauseMode }
  | { readonly type: "continue" }
  | { readonly type: "take-weights"; readonly weightVersion: string | null }
  | { readonly type: "flush-cache" };

export class EngineThread {
  readonly #worker: Worker;
  readonly #calls = new Map<number, Waiting>();
  readonly #orders = new Map<number, { readonly resolve: () => void; readonly reject: (error: Error) => void }>();
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

  /** Generations in flight. */
  get load(): number {
    return this.#calls.size;
  }

  get isAlive(): boolean {
    return this.#fault === null;
  }

  generate(prompt: Uint32Array, params: GenerationParams, onTokens: OnTokens | null): ThreadCall {
    const call = this.#next++;
    const finished = new Promise<Finished>((resolve, reject) => {
      this.#calls.set(call, { resolve, reject, onTokens });
    });
    this.#send({ type: "generate", call, prompt, params, streams: onTokens !== null });
    return { call, finished };
  }

  /** Its promise resolves soon, with what there is. */
  abort(call: number): void {
    if (this.#calls.has(call)) this.#send({ type: "abort", call });
  }

  /** Resolves when the order has taken effect. */
  order(order: Order): Promise<void> {
    const number = this.#next++;
    const done = new Promise<void>((resolve, reject) => {
      this.#orders.set(number, { resolve, reject });
    });
    this.#send({ ...order, order: number });
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
    if (message.type === "tokens") {
      this.#calls.get(message.call)?.onTokens?.(message.ids, message.logprobs);
      return;
    }
    if (message.type === "finished") {
      this.#calls.get(message.call)?.resolve(message.finished);
      this.#calls.delete(message.call);
    } else if (message.type === "failed") {
      this.#calls.get(message.call)?.reject(new CallFault(message.problem));
      this.#calls.delete(message.call);
    } else {
      this.#orders.get(message.order)?.resolve();
      this.#orders.delete(message.order);
    }
    if (this.#calls.size + this.#orders.size === 0) this.#worker.unref();
  }

  #fail(error: Error): void {
    this.#fault ??= error;
    for (const waiting of [...this.#calls.values(), ...this.#orders.values()]) waiting.reject(this.#fault);
    this.#calls.clear();
    this.#orders.clear();
  }
}

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

export type PauseMode = "abort" | "retract" | "in-place";

export type ToThread =
  | {
      readonly type: "generate";
      readonly call: number;
      readonly prompt: Uint32Array;
      readonly params: GenerationParams;
      /** Whether tokens are reported as they come. */
      readonly streams: boolean;
    }
  | { readonly type: "abort"; readonly call: number }
  /** Each of these is answered with "done" when it has taken effect. */
  | { readonly type: "pause"; readonly mode: PauseMode; readonly order: number }
  | { readonly type: "continue"; readonly order: number }
  | { readonly type: "take-weights"; readonly weightVersion: string | null; readonly order: number }
  | { readonly type: "flush-cache"; readonly order: number };

export type FromThread =
  | { readonly type: "tokens"; readonly call: number; readonly ids: number[]; readonly logprobs: number[] }
  | { readonly type: "finished"; readonly call: number; readonly finished: Finished }
  /** One call cannot be carried out; the thread continues. */
  | { readonly type: "failed"; readonly call: number; readonly problem: string }
  | { readonly type: "done"; readonly order: number };

export type ThreadOptions = {
  readonly checkpoint: Checkpoint;
  readonly weightVersion: string | null;
  readonly threads: number;
  /** Most generations that run at a time on one thread. */
  readonly maxSequences: number;
  /** Most tokens that one thread computes in one step; at least `maxSequences`. */
  readonly maxRows: number;
  /** Tokens whose keys and values one thread keeps; a whole context at least. */
  readonly cacheTokens: number;
  readonly kernels?: CompiledKernels;
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
  pick(routingKey: string | null): EngineThread {
    const home = routingKey === null ? undefined : this.#homes.get(routingKey);
    const thread = home ?? this.#threads.reduce((least, other) => (other.load < least.load ? other : least));
    if (routingKey !== null) {
      this.#homes.delete(routingKey);
      this.#homes.set(routingKey, thread);
      if (this.#homes.size > maxKeys) this.#homes.delete(this.#homes.keys().next().value!);
    }
    return thread;
  }

  /** Resolves when every thread samples from these weights. The array may be changed afterwards. */
  updateWeights(weights: Float32Array, version: string | null): Promise<void> {
    const update = this.#updateAfter(this.#exchange, weights, version);
    this.#exchange = update.catch(() => undefined);
    return update;
  }

  pause(mode: PauseMode): Promise<void> {
    return this.#order((thread) => thread.order({ type: "pause", mode }));
  }

  continue(): Promise<void> {
    return this.#order((thread) => thread.order({ type: "continue" }));
  }

  flushCache(): Promise<void> {
    return this.#order((thread) => thread.order({ type: "flush-cache" }));
  }

  async close(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.close()));
  }

  async #updateAfter(earlier: Promise<void>, weights: Float32Array, version: string | null): Promise<void> {
    await earlier;
    this.#shared.set(weights);
    await this.#order((thread) => thread.order({ type: "take-weights", weightVersion: version }));
    this.#version = version;
  }

  async #order(give: (thread: EngineThread) => Promise<void>): Promise<void> {
    await Promise.all(this.#threads.map(give));
  }
}
