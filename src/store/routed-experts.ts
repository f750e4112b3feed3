// `routed-experts.bin` of a run folder: the experts of a mixture-of-experts model, as bytes, beside the records that say where. It
// only grows. Bytes are written before the turn that names them is recorded; what a killed process wrote and never named stays and
// is nobody's. Not synced: after a power failure a turn may name bytes that are not there, which a reader reports.

import { closeSync, openSync, readSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { attribute, ConfigurationError, type RoutedExperts } from "../core/index.ts";
import { runFiles } from "./run-store.ts";

/** Takes bytes at the end of the file, one writer at a time. */
export type RoutedExpertsFile = {
  /** Resolves with the place of the first byte. Rejects with an `AttributedError` at boundary "store". */
  write(bytes: Uint8Array): Promise<number>;
  close(): Promise<void>;
};

/** The file of a run folder, made at the first write. */
export function createRoutedExpertsFile(folder: string): RoutedExpertsFile {
  let file: Promise<{ readonly handle: FileHandle; size: number }> | null = null;
  let last: Promise<unknown> = Promise.resolve();
  const append = async (bytes: Uint8Array): Promise<number> => {
    file ??= open(join(folder, runFiles.routedExperts), "a").then(async (handle) => {
      return { handle, size: (await handle.stat()).size };
    });
    const opened = await file;
    const offset = opened.size;
    for (let at = 0; at < bytes.length;) {
      const { bytesWritten } = await opened.handle.write(bytes, at, bytes.length - at);
      opened.size += bytesWritten;
      at += bytesWritten;
    }
    return offset;
  };
  return {
    write: (bytes) => {
      const written = last.then(() => append(bytes));
      // A part that was written is nobody's: the size counts it.
      last = written.catch(() => undefined);
      return written.catch((error: unknown) => {
        throw attribute(error, "store", "experts-not-written");
      });
    },
    close: async () => {
      await last;
      await (await file)?.handle.close();
    },
  };
}

/** Reads what {@link createRoutedExpertsFile} wrote. */
export type RoutedExpertsReader = {
  /** As they are kept, `width` bytes a number. Throws a `ConfigurationError` when the file does not have them. */
  read(part: RoutedExperts): Uint8Array;
  close(): void;
};

/** Opens nothing before the first read. */
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
        `Cannot read "${path}": a turn names ${bytes.length} bytes at ${offset}, ${read} are there; the file is not whole.`,
      );
    },
    close: () => {
      if (file !== null) closeSync(file);
    },
  };
}
