// One file of a checkout, as text. A checkout is other people's data: a link out of it, a pipe, a huge file or text that is no
// UTF-8 is refused by name, so that nothing else on the machine ends up in a prompt and nothing waits for ever.

import { readFile, realpath, stat } from "node:fs/promises";
import { join, sep } from "node:path";

import { ConfigurationError } from "../../../core/index.ts";
import { checkoutRemedy } from "./upstream.ts";

/** The largest table of upstream has 2.3 MB. */
const maxBytes = 64_000_000;

/** Throws a `ConfigurationError` that names the file and says what is wrong with it. */
export async function readCheckoutFile(folder: string, path: string): Promise<string> {
  const text = await readCheckoutFileIfAny(folder, path);
  if (text === null) throw cannotRead(folder, path, "there is no such file");
  return text;
}

/** `null` when there is no such file; otherwise as {@link readCheckoutFile}. */
export async function readCheckoutFileIfAny(folder: string, path: string): Promise<string | null> {
  try {
    const root = await realpath(folder);
    const file = await realpath(join(root, path));
    if (!file.startsWith(root.endsWith(sep) ? root : root + sep)) {
      throw cannotRead(folder, path, "it is a link that leads out of the checkout");
    }
    const { size, ...stats } = await stat(file).then((found) => ({ size: found.size, isFile: found.isFile() }));
    if (!stats.isFile) throw cannotRead(folder, path, "it is no file");
    if (size > maxBytes) throw cannotRead(folder, path, `it has ${size} bytes, ${maxBytes} is the most`);
    return decode(await readFile(file), folder, path);
  } catch (error) {
    if (error instanceof ConfigurationError) throw error;
    const code = error instanceof Error && "code" in error ? error.code : null;
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw cannotRead(folder, path, error instanceof Error ? error.message : String(error), error);
  }
}

/** The byte order mark stays, so that a copy has the same bytes. */
function decode(bytes: Uint8Array, folder: string, path: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    throw cannotRead(folder, path, "its bytes are no UTF-8", error);
  }
}

function cannotRead(folder: string, path: string, problem: string, cause?: unknown): ConfigurationError {
  return new ConfigurationError(`Cannot read "${path}" of the checkout "${folder}": ${problem}; ${checkoutRemedy}.`, {
    cause,
  });
}
