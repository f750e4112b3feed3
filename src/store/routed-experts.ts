// Bytes of turns beside the records, which name their offsets: `routed-experts.bin`, the experts of a
// mixture-of-experts model, and `sampling-masks.bin`, the ids from which each token was sampled. The
// files only grow. Bytes are written before the turn that names them is recorded; bytes that a killed
// process wrote without naming them stay unused. Not synced: after a power failure a turn may name
// missing bytes, which a reader reports.

import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import { attribute, ConfigurationError, type RoutedExperts, type SamplingMaskPlace } from "../core/index.ts";
import { Disk } from "./disk.ts";
import { AppendFile, sizeOf } from "./lines.ts";
import { runFiles } from "./run-store.ts";

/** A file of bytes that only grows, for one writer at a time. */
export type TurnBytesFile = {
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
export function createRoutedExpertsFile(folder: string, disk = new Disk(folder)): TurnBytesFile {
  return bytesFile(join(folder, runFiles.routedExperts), disk, "experts-not-written");
}

/** The file of kept ids, as {@link createRoutedExpertsFile} creates that of experts. */
export function createSamplingMasksFile(folder: string, disk = new Disk(folder)): TurnBytesFile {
  return bytesFile(join(folder, runFiles.samplingMasks), disk, "sampling-mask-not-written");
}

function bytesFile(path: string, disk: Disk, code: string): TurnBytesFile {
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
        throw attribute(error, "store", code);
      });
    },
    close: async () => {
      await last;
      await file?.close();
    },
  };
}

/** Reads a file of bytes of turns. */
export type TurnBytesReader<Part> = {
  /** Returns the bytes as stored. Throws a `ConfigurationError` when the file does not have them. */
  read(part: Part): Uint8Array;
  close(): void;
};

/** Opens the file of {@link createRoutedExpertsFile} at the first read. */
export function openRoutedExperts(folder: string): TurnBytesReader<RoutedExperts> {
  const sizeOfPart = ({ rows, layers, topk, width }: RoutedExperts): number => rows * layers * topk * width;
  return bytesReader(join(folder, runFiles.routedExperts), sizeOfPart);
}

/** Opens the file of {@link createSamplingMasksFile} at the first read. */
export function openSamplingMasks(folder: string): TurnBytesReader<SamplingMaskPlace> {
  return bytesReader(join(folder, runFiles.samplingMasks), ({ tokens, ids }) => (tokens + ids) * 4);
}

function bytesReader<Part extends { readonly offset: number }>(
  path: string,
  sizeOfPart: (part: Part) => number,
): TurnBytesReader<Part> {
  let file: number | null = null;
  return {
    read: (part) => {
      const { offset } = part;
      const size = sizeOfPart(part);
      let bytes = new Uint8Array(0);
      let read = 0;
      try {
        file ??= openSync(path, "r");
        // A wrong place in the records must not take memory that the file cannot fill.
        if (offset + size <= fstatSync(file).size) bytes = new Uint8Array(size);
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
      if (read === size) return bytes;
      throw new ConfigurationError(
        `Cannot read "${path}": a turn refers to ${size} bytes at ${offset}, but ${read} are there; the file is incomplete.`,
      );
    },
    close: () => {
      if (file !== null) closeSync(file);
    },
  };
}
