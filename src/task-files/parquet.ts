// Tasks of Parquet. Its reader is asynchronous and decodes whole groups of rows, and one task is
// needed at once, in any order; so the rows are written as JSON lines beside the index, once, and
// read from there like those of any other file.

import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { systemClock } from "../lib/clock.ts";
import type { ParquetResult, ParquetSetup } from "./parquet-process.ts";
import { BadRowError } from "./records.ts";

/** The same path from src/ and from dist/: other processes always run the built program. */
const program = fileURLToPath(new URL("../../dist/task-files/parquet-process.js", import.meta.url));

/** Limit on the memory of the decoder, in MB. */
const mostMemory = 1024;

/** Longest time without a sign of life, in milliseconds: a page takes seconds at most. */
const mostSilentMs = 60_000;

/** Writes the rows of `file` as JSON lines to `target`. Rejects with a `BadRowError` for a file that cannot be read. */
export async function writeParquetRows(
  { file, target }: ParquetSetup,
  { silentMs = mostSilentMs }: { readonly silentMs?: number } = {},
): Promise<void> {
  const child = fork(program, [file, target], {
    execArgv: [`--max-old-space-size=${mostMemory}`],
    stdio: ["ignore", "ignore", "ignore", "ipc"],
  });
  let cancel = (): void => undefined;
  try {
    const { problem } = await new Promise<ParquetResult>((resolve, reject) => {
      const wait = (): void => {
        cancel();
        cancel = systemClock.after(silentMs, () => {
          const seconds = Math.round(silentMs / 1000);
          reject(new BadRowError(null, `its reader was stopped: a page of it took more than ${seconds} s to decode`));
        });
      };
      wait();
      child.on("message", (message) => {
        const result = message as ParquetResult;
        if (result.isDone) resolve(result);
        else wait();
      });
      child.once("error", reject);
      child.once("exit", (code, signal) =>
        reject(
          new BadRowError(
            null,
            `its reader ended with ${signal ?? `code ${code}`}, as it does for values that need more than ${mostMemory} MB`,
          ),
        ),
      );
    });
    if (problem !== null) throw new BadRowError(null, problem.replace(/\.$/, ""));
  } finally {
    cancel();
    child.kill("SIGKILL");
  }
}
