// Folders, with all those above them. Node's own recursive mkdir reports ENOENT for a read-only file system, and never returns where the
// parent refuses with ENOENT, as in /proc.

import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { systemCode } from "../lib/system-error.ts";

/** Makes a folder and those above it; one that exists is left as it is. `mode`: of those that are made. Rejects with the system's error. */
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
