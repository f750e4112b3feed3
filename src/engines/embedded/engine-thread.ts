// One worker thread as the engine sees it: generations and orders go in, promises come out. A thread that dies takes what
// it was doing along; everything asked of it then, and later, fails.

import { Worker } from "node:worker_threads";

import type { GenerationParams } from "../../sampling/index.ts";
import type { Finished } from "./sequence.ts";
import type { FromThread, PauseMode, ThreadSetup, ToThread } from "./thread-protocol.ts";

/** From src/ and from dist/ alike: threads run what was built. */
const program = new URL("../../../dist/engines/embedded/worker-main.js", import.meta.url);

export type ThreadCall = {
  readonly call: number;
  readonly finished: Promise<Finished>;
};

/** One call failed, of a thread that goes on. */
export class CallFault extends Error {}

export type OnTokens = (ids: readonly number[], logprobs: readonly number[]) => void;

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
    // Only what is under way keeps the process alive.
    this.#worker.unref();
    this.#worker.on("message", (message: FromThread) => this.#receive(message));
    this.#worker.on("error", (error) => this.#fail(error instanceof Error ? error : new Error(String(error))));
    this.#worker.on("exit", () => this.#fail(new Error("Its thread has ended.")));
  }

  /** Generations under way. */
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
