// The place of caches that commands keep for the user, outside of run folders.

import { homedir } from "node:os";
import { join } from "node:path";

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
