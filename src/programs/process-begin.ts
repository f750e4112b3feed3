// Start time of a process, by the system's own count: process ids are reused, but pairs of id and
// start time are unique.

import { readFileSync } from "node:fs";

/**
 * Clock ticks since the system's start; `null` if the process does not exist, or the system does
 * not report it.
 */
export function beginOf(pid: number | "self"): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // Field 22, counted after the name in brackets, which may contain any characters.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? null;
  } catch {
    return null;
  }
}
