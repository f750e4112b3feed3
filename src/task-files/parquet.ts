// Tasks of Parquet. Its reader is asynchronous and decodes whole groups of rows, and one task is
// needed at once, in any order; so the rows are written as JSON lines beside the index, once, and
// read from there like those of any other file.

import { Worker } from "node:worker_threads";
import { systemCode } from "../lib/system-error.ts";
import type { ParquetResult, ParquetSetup } from "./parquet-thread.ts";
import { BadRowError } from "./records.ts";

/** The same path from src/ and from dist/: threads always run the built program. */
const program = new URL("../../dist/task-files/parquet-thread.js", import.meta.url);

/** Limit on the memory of the decoder, in MB. */
const mostMemory = 1024;

/** Writes the rows of `file` as JSON lines to `target`. Rejects with a `BadRowError` for a file that cannot be read. */
export async function writeParquetRows(setup: ParquetSetup): Promise<void> {
  const worker = new Worker(program, { workerData: setup, resourceLimits: { maxOldGenerationSizeMb: mostMemory } });
  try {
    const { problem } = await new Promise<ParquetResult>((resolve, reject) => {
      worker.once("message", resolve);
      worker.once("error", reject);
      worker.once("exit", (code) => reject(new BadRowError(null, `its reader ended with code ${code}`)));
    });
    if (problem !== null) throw new BadRowError(null, problem.replace(/\.$/, ""));
  } catch (error) {
    if (systemCode(error) !== "ERR_WORKER_OUT_OF_MEMORY") throw error;
    throw new BadRowError(null, `its rows need more than ${mostMemory} MB of memory to be decoded`);
  } finally {
    await worker.terminate();
  }
}
