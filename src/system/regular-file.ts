// Checks of user-given paths before they are opened. Opening a pipe waits for a writer, in a thread
// that cannot be stopped, and reading a device may never end, so only files and folders are opened.

import { type Stats, statSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";

/** The path is that of a pipe, a socket or a device. */
export class SpecialFileError extends Error {
  override readonly name = "SpecialFileError";
  readonly path: string;
  /** Replaces the code of a system error in messages. */
  readonly code: string;

  constructor(path: string, kind: string) {
    super(`it is ${kind}, expected a file`);
    this.path = path;
    this.code = this.message;
  }
}

/**
 * Rejects with a `SpecialFileError` if the path is neither a file nor a folder, and with the
 * system's error if it does not exist.
 */
export async function requireRegular(path: string): Promise<void> {
  refuseSpecial(path, await stat(path));
}

/** Synchronous version of {@link requireRegular}. */
export function requireRegularSync(path: string): void {
  refuseSpecial(path, statSync(path));
}

/** Like Node's `readFile`, but reads only regular files. */
export async function readRegular(path: string): Promise<Buffer>;
export async function readRegular(path: string, encoding: "utf8"): Promise<string>;
export async function readRegular(path: string, encoding?: "utf8"): Promise<Buffer | string> {
  await requireRegular(path);
  return readFile(path, encoding);
}

function refuseSpecial(path: string, found: Stats): void {
  if (found.isFile() || found.isDirectory()) return;
  const kind = found.isFIFO() ? "a named pipe" : found.isSocket() ? "a socket" : "a device";
  throw new SpecialFileError(path, kind);
}
