// `routed-experts.bin` of a run folder: the experts of a mixture-of-experts model, as bytes; the
// records name their offsets. It only grows. Bytes are written before the turn that names them is
// recorded; bytes that a killed process wrote without naming them stay unused. Not synced: after a
// power failure a turn may name missing bytes, which a reader reports.

import { closeSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import { attribute, ConfigurationError, type RoutedExperts } from "../core/index.ts";
import { Disk } from "./disk.ts";
import { AppendFile, sizeOf } from "./lines.ts";
import { runFiles } from "./run-store.ts";

/** A file of expert bytes that only grows, for one writer at a time. */
export type RoutedExpertsFile = {
  /**
   * Appends bytes. Resolves with the offset of the first one. Rejects with an `AttributedError` at
   * boundary "store".
   */
  write(bytes: Uint8Array): Promise<number>;
  close(): Promise<void>;
};

/**
 * The experts file of a run folder, created at the first write. `disk`: that of the run's store.
 * Default: one without patience.
 */
export function createRoutedExpertsFile(folder: string, disk = new Disk(folder)): RoutedExpertsFile {
  const path = join(folder, runFiles.routedExperts);
  let file: AppendFile | null = null;
  let last: Promise<unknown> = Promise.resolve();
  const append = async (bytes: Uint8Array): Promise<number> => {
    file ??= await disk.repeat(async () => AppendFile.reopen(path, await sizeOf(path), disk));
    const offset = file.size;
    await file.append(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    return offset;
  };
  return {
    write: (bytes) => {
      const written = last.then(() => append(bytes));
      // A partial write is harmless: no turn names it, and the file's size includes it.
      last = written.catch(() => undefined);
      return written.catch((error: unknown) => {
        throw attribute(error, "store", "experts-not-written");
      });
    },
    close: async () => {
      await last;
      await file?.close();
    },
  };
}

/** Reads the file of {@link createRoutedExpertsFile}. */
export type RoutedExpertsReader = {
  /**
   * Returns the bytes as stored, `width` per number. Throws a `ConfigurationError` when the file
   * does not have them.
   */
  read(part: RoutedExperts): Uint8Array;
  close(): void;
};

/** Opens the file at the first read. */
export function openRoutedExperts(folder: string): RoutedExpertsReader {
  const path = join(folder, runFiles.routedExperts);
  let file: number | null = null;
  return {
    read: ({ offset, rows, layers, topk, width }) => {
      const bytes = new Uint8Array(rows * layers * topk * width);
      let read = 0;
      try {
        file ??= openSync(path, "r");
        while (read < bytes.length) {
          const count = readSync(file, bytes, read, bytes.length - read, offset + read);
          if (count === 0) break;
          read += count;
        }
      } catch (cause) {
        throw new ConfigurationError(`Cannot read "${path}": ${String(cause)}; it belongs to its run folder.`, {
          cause,
        });
      }
      if (read === bytes.length) return bytes;
      throw new ConfigurationError(
        `Cannot read "${path}": a turn refers to ${bytes.length} bytes at ${offset}, but ${read} are there; the file is incomplete.`,
      );
    },
    close: () => {
      if (file !== null) closeSync(file);
    },
  };
}
