// When a process began, by the system's own count: numbers of processes are used again, and the two together are not.

import { readFileSync } from "node:fs";

/** Clock ticks since the system's start; `null`: there is no such process, or the system does not say. */
export function beginOf(pid: number | "self"): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // Field 22, after the name in brackets, which may hold anything.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? null;
  } catch {
    return null;
  }
}
