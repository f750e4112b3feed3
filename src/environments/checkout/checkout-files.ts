// Files of an upstream checkout, read as data. What is read was written by others: links out of the checkout, folders in the place of
// files, files without end and bytes that are no text are refused by name.

import { readFile, realpath, stat } from "node:fs/promises";
import { join, sep } from "node:path";

import { ConfigurationError, messageOf } from "../../core/index.ts";

/** The largest file of an upstream has 14 MB. */
const maxBytes = 64_000_000;

/** An error about a place of a checkout: `problem` is what is wrong with it, without a full stop; `remedy` what to do. */
export function cannotRead(place: string, problem: string, remedy: string, cause?: unknown): ConfigurationError {
  return new ConfigurationError(`Cannot read ${place}: ${problem}; ${remedy}.`, { cause });
}

/** Throws a `ConfigurationError` that names the file and says what is wrong with it. */
export async function readCheckoutFile(folder: string, path: string, remedy: string): Promise<string> {
  const text = await readCheckoutFileIfAny(folder, path, remedy);
  if (text === null) throw cannotRead(`"${path}" of the checkout "${folder}"`, "there is no such file", remedy);
  return text;
}

/** `null` when there is no such file; otherwise as {@link readCheckoutFile}. */
export async function readCheckoutFileIfAny(folder: string, path: string, remedy: string): Promise<string | null> {
  const refuse = (problem: string, cause?: unknown): ConfigurationError =>
    cannotRead(`"${path}" of the checkout "${folder}"`, problem, remedy, cause);
  let bytes: Uint8Array;
  try {
    const root = await realpath(folder);
    const file = await realpath(join(root, path));
    if (!file.startsWith(root.endsWith(sep) ? root : root + sep)) {
      throw refuse("it is a link that leads out of the checkout");
    }
    const stats = await stat(file);
    if (!stats.isFile()) throw refuse("it is no file");
    if (stats.size > maxBytes) throw refuse(`it has ${stats.size} bytes, ${maxBytes} is the most`);
    bytes = await readFile(file);
  } catch (error) {
    if (error instanceof ConfigurationError) throw error;
    const code = codeOf(error);
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw refuse(messageOf(error), error);
  }
  try {
    // The byte order mark stays, so that a copy has the same bytes.
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    throw refuse("its bytes are no UTF-8", error);
  }
}

/** Whether a folder has a file at this path; a folder that does not exist has none. */
export async function hasFile(folder: string, path: string): Promise<boolean> {
  try {
    return (await stat(join(folder, path))).isFile();
  } catch {
    return false;
  }
}

/** Of an error of the system; `null` for any other. */
export const codeOf = (error: unknown): unknown => (error instanceof Error && "code" in error ? error.code : null);
