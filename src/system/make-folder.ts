// Creates folders with all their parents. Node's own recursive mkdir reports ENOENT for a read-only
// file system, and never returns if the parent refuses with ENOENT, as in /proc.

import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { systemCode } from "../lib/system-error.ts";

/**
 * Creates a folder and its parents; an existing one is not changed. `mode` applies to the created
 * ones. Rejects with the system's error.
 */
export async function makeFolder(path: string, mode = 0o777): Promise<void> {
  try {
    await makeOne(path, mode);
  } catch (error) {
    if (systemCode(error) !== "ENOENT" || dirname(path) === path) throw error;
    await makeFolder(dirname(path), mode);
    await makeOne(path, mode);
  }
}

async function makeOne(path: string, mode: number): Promise<void> {
  await mkdir(path, { mode }).catch(async (error: unknown) => {
    const isThere = await stat(path).then(
      (found) => found.isDirectory(),
      () => false,
    );
    if (!isThere) throw error;
  });
}
