// One thread as the trainer sees it: orders in, answers out, in that order. A thread that dies takes what it was asked along.

import { Worker } from "node:worker_threads";

import type { ThreadAnswer, ThreadOrder, TrainerThreadSetup } from "./thread-protocol.ts";

/** From src/ and from dist/ alike: threads run what was built. */
const program = new URL("../../../dist/learner/threads/worker-main.js", import.meta.url);

type Waiting = { readonly resolve: (answer: ThreadAnswer) => void; readonly reject: (error: Error) => void };

export class TrainerThread {
  readonly #worker: Worker;
  readonly #waiting: Waiting[] = [];
  #fault: Error | null = null;

  constructor(setup: TrainerThreadSetup) {
    this.#worker = new Worker(program, { workerData: setup });
    // Only what is under way keeps the process alive.
    this.#worker.unref();
    this.#worker.on("message", (answer: ThreadAnswer) => {
      this.#waiting.shift()?.resolve(answer);
      if (this.#waiting.length === 0) this.#worker.unref();
    });
    this.#worker.on("error", (error) => this.#fail(error instanceof Error ? error : new Error(String(error))));
    this.#worker.on("exit", () => this.#fail(new Error("Cannot train: a thread of the trainer has ended.")));
  }

  /** Rejects when the thread has died. */
  order(order: ThreadOrder): Promise<ThreadAnswer> {
    return new Promise((resolve, reject) => {
      if (this.#fault !== null) {
        reject(this.#fault);
        return;
      }
      this.#waiting.push({ resolve, reject });
      this.#worker.ref();
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, no window
      this.#worker.postMessage(order);
    });
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  #fail(error: Error): void {
    this.#fault ??= error;
    for (const { reject } of this.#waiting.splice(0)) reject(this.#fault);
  }
}
