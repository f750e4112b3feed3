// zstd for Node before 22.15, which lacks it: 22 bytes can hold the decoder in JavaScript in an
// endless loop, so it runs in a thread that can be terminated. Newer versions of Node unpack by
// themselves (`system/zstd.ts`).

import { Worker } from "node:worker_threads";

/**
 * The program of the thread, as text: a file of its own would have to be found from sources, from
 * the package and from a bundle.
 */
const program = `
  const { parentPort, workerData } = require("node:worker_threads");
  parentPort.on("message", async ({ packed, size }) => {
    const { decompress } = await import(workerData);
    // What does not fit into the given array is dropped.
    parentPort.postMessage(decompress(packed, new Uint8Array(size)));
  });`;

export class ZstdWorker {
  #worker: Worker | null = null;
  /** The previous call; never rejects. */
  #last: Promise<unknown> = Promise.resolve();

  /**
   * The first `size` bytes that one body unpacks to; calls wait for one another. Rejects with a
   * plain error for anything else.
   */
  unpack(packed: Uint8Array, size: number): Promise<Uint8Array> {
    const result = this.#last.then(() => this.#unpackNext(packed, size));
    this.#last = result.catch(() => undefined);
    return result;
  }

  async #unpackNext(packed: Uint8Array, size: number): Promise<Uint8Array> {
    const worker = (this.#worker ??= startWorker());
    const deadlineMs = 5000 + size / 5000;
    let timer: NodeJS.Timeout | undefined;
    let settle: (() => void) | undefined;
    try {
      return await new Promise<Uint8Array>((resolve, reject) => {
        const late = (): void => reject(new Error(`it takes more than ${Math.round(deadlineMs)} ms to unpack`));
        timer = setTimeout(late, deadlineMs);
        worker.once("message", resolve);
        worker.once("error", reject);
        settle = () => worker.off("message", resolve).off("error", reject);
        // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, no window
        worker.postMessage({ packed, size });
      });
    } catch (error) {
      await this.close();
      throw error;
    } finally {
      clearTimeout(timer);
      settle?.();
    }
  }

  async close(): Promise<void> {
    const worker = this.#worker;
    this.#worker = null;
    await worker?.terminate();
  }
}

function startWorker(): Worker {
  const worker = new Worker(program, { eval: true, workerData: import.meta.resolve("fzstd") });
  // An idle thread does not keep the process running.
  worker.unref();
  return worker;
}
