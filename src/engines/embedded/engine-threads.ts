// The threads of an engine: each has the whole model and a cache of its own, and generations are dealt out among them. A
// generation's outcome does not depend on its thread, so dealing is only about speed: calls with one routing key stay on
// the thread whose cache knows their beginning, others go where least is under way.

import { type Checkpoint, type CompiledKernels, loadKernels, pageTokens } from "../../learner/model/index.ts";
import { EngineThread } from "./engine-thread.ts";
import type { PauseMode } from "./thread-protocol.ts";

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
  /** Settles when the last exchange of weights is over; they go one after the other. */
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
