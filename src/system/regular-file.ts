// Files that somebody named, before they are opened. To open a pipe waits for whoever writes into it, in a thread that nothing can end; a
// device may never end; so only files and folders are.

import { type Stats, statSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";

/** The path is that of a pipe, a socket or a device. */
export class SpecialFileError extends Error {
  override readonly name = "SpecialFileError";
  readonly path: string;
  /** Stands for the code of an error of the system in messages. */
  readonly code: string;

  constructor(path: string, kind: string) {
    super(`it is ${kind}, and a file is needed`);
    this.path = path;
    this.code = this.message;
  }
}

/** Rejects with a `SpecialFileError` for what is neither a file nor a folder, and with the system's error where there is nothing. */
export async function requireRegular(path: string): Promise<void> {
  refuseSpecial(path, await stat(path));
}

/** The same at once. */
export function requireRegularSync(path: string): void {
  refuseSpecial(path, statSync(path));
}

/** As Node's `readFile`, of a file alone. */
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
