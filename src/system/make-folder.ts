// Creates folders with all their parents. Node's own recursive mkdir reports ENOENT for a read-only
// file system, and never returns if the parent refuses with ENOENT, as in /proc. It also names
// the folder of the user's caches.

import { mkdir, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
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

type Variables = Readonly<Record<string, string | undefined>>;

/**
 * The folder of this user's caches of one kind, below the one that the environment variable
 * TRAINABLE_AGENTS_CACHE names, or below the system's own folder for caches. It may not exist yet.
 */
export function userCache(kind: string, variables: Variables = process.env): string {
  const { TRAINABLE_AGENTS_CACHE: named, XDG_CACHE_HOME: xdg, LOCALAPPDATA: local } = variables;
  if (named !== undefined && named !== "") return join(named, kind);
  const given = process.platform === "win32" ? local : xdg;
  return join(given === undefined || given === "" ? join(homedir(), ".cache") : given, "trainable-agents", kind);
}
