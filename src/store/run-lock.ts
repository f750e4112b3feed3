// One process at a time writes into a run folder. The lock is a file that names its process; what a killed process leaves
// behind is recognised and taken over. Between machines that share a folder nothing can be known: there the lock stands
// until somebody removes it.

import { readFile, rm, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { ConfigurationError } from "../core/index.ts";

type Holder = {
  readonly pid: number;
  /** When the process began, by the system's own count, since numbers of processes are used again; `null` where it does not say. */
  readonly began: string | null;
  readonly host: string;
  readonly since: string;
};

export type RunLock = { release(): Promise<void> };

/** Takes the lock. Throws a `ConfigurationError` when a process that lives, or may live, holds it. */
export async function lockRun(folder: string, file: string): Promise<RunLock> {
  const mine: Holder = {
    pid: process.pid,
    began: await beginOf(process.pid),
    host: hostname(),
    since: new Date().toISOString(),
  };
  for (;;) {
    try {
      await writeFile(file, `${JSON.stringify(mine)}\n`, { flag: "wx" });
      return { release: () => rm(file, { force: true }) };
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    }
    const holder = await readHolder(file);
    if (holder !== null && (await mayLive(holder))) throw inUse(folder, file, holder);
    await rm(file, { force: true });
  }
}

/** `null` for a file that is gone, or was cut off while it was written. */
async function readHolder(file: string): Promise<Holder | null> {
  const text = await readFile(file, "utf8").catch(() => "");
  try {
    const { pid, began, host, since } = JSON.parse(text) as Record<string, unknown>;
    if (typeof pid !== "number" || typeof host !== "string") return null;
    return { pid, began: typeof began === "string" ? began : null, host, since: String(since) };
  } catch {
    return null;
  }
}

async function mayLive({ pid, began, host }: Holder): Promise<boolean> {
  if (host !== hostname()) return true;
  try {
    process.kill(pid, 0);
  } catch (error) {
    // Whoever may not be asked is there.
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
  const now = await beginOf(pid);
  return began === null || now === null || began === now;
}

/** Field 22 of /proc/<pid>/stat, after the name in brackets, which may hold anything. */
async function beginOf(pid: number): Promise<string | null> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? null;
  } catch {
    return null;
  }
}

function inUse(folder: string, file: string, { pid, host, since }: Holder): ConfigurationError {
  const where = host === hostname() ? `process ${pid}` : `process ${pid} on "${host}"`;
  const remedy =
    host === hostname()
      ? "wait for it, or stop it"
      : `if it is gone, remove "${file}"; otherwise wait for it, or stop it`;
  return new ConfigurationError(
    `Cannot write into run "${folder}": ${where} has been using it since ${since}; ${remedy}.`,
  );
}
