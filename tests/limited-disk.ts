// Simulates a disk that fills up and is emptied again, for all writes of this process into one
// folder: writes stop in the middle of a line, as on a real system, and are then refused. A real
// full disk is in `src/cli/full-disk.wire.test.ts`.

import fs, { type FileHandle } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";

export type LimitedDisk = {
  /** Bytes that may still be written; `Infinity` at first. */
  room: number;
  /** Error code of a write without space. */
  code: string;
  /** Writes that were refused. */
  readonly refused: number;
  restore(): void;
};

/** Applies `room` to every file that is opened or written below the folder after this call. */
export function limitDisk(folder: string): LimitedDisk {
  const { open, writeFile } = fs;
  const counts = { refused: 0 };
  const refuse = (): never => {
    counts.refused++;
    const error = new Error(`${disk.code}: no room, write`);
    throw Object.assign(error, { code: disk.code, syscall: "write" });
  };
  const spend = (wished: number): number => {
    const written = Math.min(wished, disk.room);
    if (written === 0 && wished > 0) refuse();
    disk.room -= written;
    return written;
  };
  const isBelow = (path: unknown): boolean => typeof path === "string" && path.startsWith(folder);
  const disk = {
    room: Infinity,
    code: "ENOSPC",
    get refused() {
      return counts.refused;
    },
    restore: () => {
      fs.open = open;
      fs.writeFile = writeFile;
      syncBuiltinESMExports();
    },
  };
  fs.open = async (...given: Parameters<typeof open>) => {
    const handle = await open(...given);
    if (!isBelow(given[0])) return handle;
    const write = handle.write.bind(handle) as (bytes: Buffer) => Promise<unknown>;
    const limited = async (bytes: Buffer): Promise<unknown> => write(bytes.subarray(0, spend(bytes.length)));
    handle.write = limited as unknown as FileHandle["write"];
    return handle;
  };
  fs.writeFile = async (...given: Parameters<typeof writeFile>) => {
    const [path, content] = given;
    if (isBelow(path) && typeof content === "string" && spend(content.length) < content.length) refuse();
    return writeFile(...given);
  };
  syncBuiltinESMExports();
  return disk;
}
