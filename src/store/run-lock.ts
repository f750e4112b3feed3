// One process at a time writes into a run folder. The lock is a file that names its process; the
// lock of a killed process is recognised and taken over. Between machines that share a folder,
// liveness cannot be determined: there the lock stays until it is removed by hand.

import { constants } from "node:fs";
import { copyFile, link, readdir, rm, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { ConfigurationError, messageOf } from "../core/index.ts";
import { remedyOf, systemCode } from "../lib/system-error.ts";
import { jsonOf } from "../lib/text.ts";
import { beginOf } from "../programs/process-begin.ts";
import { runFiles } from "./run-store.ts";
import { readRegular } from "../system/regular-file.ts";

type Holder = {
  readonly pid: number;
  /**
   * Start time of the process in the system's own count, since process ids are reused; `null` if
   * the system does not report it.
   */
  readonly began: string | null;
  readonly host: string;
  readonly since: string;
};

export type RunLock = { release(): Promise<void> };

/**
 * Acquires the lock. Throws a `ConfigurationError` when a process that is alive, or may be, holds
 * it.
 */
export async function lockRun(folder: string, file: string): Promise<RunLock> {
  const mine: Holder = {
    pid: process.pid,
    began: beginOf(process.pid),
    host: hostname(),
    since: new Date().toISOString(),
  };
  const draft = `${file}.${process.pid}-${locks++}`;
  try {
    await writeFile(draft, `${JSON.stringify(mine)}\n`);
    for (;;) {
      if (await place(draft, file)) {
        await sweepDrafts(file);
        return { release: () => rm(file, { force: true }) };
      }
      const holder = await readHolder(file);
      if (holder === "gone") continue;
      if (holder !== null && (await mayLive(holder))) throw inUse(folder, file, holder);
      await takeAway(file, draft);
    }
  } catch (error) {
    if (systemCode(error) === null) throw error;
    const remedy = remedyOf(error);
    throw new ConfigurationError(
      `Cannot write into run "${folder}": ${messageOf(error)}${remedy === null ? "" : `; ${remedy}`}.`,
      { cause: error },
    );
  } finally {
    await rm(draft, { force: true }).catch(() => undefined);
  }
}

/**
 * True if a process that is alive, or may be, writes into the folder. Only for observers: the
 * process may end a moment later.
 */
export async function isRunInUse(folder: string): Promise<boolean> {
  const holder = await readHolder(join(folder, runFiles.lock));
  return holder !== "gone" && holder !== null && (await mayLive(holder));
}

/** Number of attempts of this process to acquire a lock. */
let locks = 0;

/**
 * Places the lock whole or not at all, so that it is never read half written. False if a lock
 * exists.
 */
async function place(draft: string, file: string): Promise<boolean> {
  try {
    await link(draft, file).catch((error: unknown) => {
      if (!["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"].includes(systemCode(error) ?? "")) throw error;
      // The file system has no hard links.
      return copyFile(draft, file, constants.COPYFILE_EXCL);
    });
    return true;
  } catch (error) {
    if (systemCode(error) === "EEXIST") return false;
    throw error;
  }
}

/**
 * Removes the lock of a dead process. Done by one process at a time, with a second check: another
 * process that saw the dead one may have acquired the lock since, and must not lose it.
 */
async function takeAway(file: string, draft: string): Promise<void> {
  const turn = `${file}.taking`;
  if (!(await place(draft, turn))) {
    const other = await readHolder(turn);
    // The other process was killed in the middle of this.
    if (other !== "gone" && other !== null && !(await mayLive(other))) await rm(turn, { force: true });
    return;
  }
  try {
    const holder = await readHolder(file);
    if (holder !== "gone" && (holder === null || !(await mayLive(holder)))) await rm(file, { force: true });
  } finally {
    await rm(turn, { force: true });
  }
}

/** Removes drafts of processes that were killed between writing one and removing it. */
async function sweepDrafts(file: string): Promise<void> {
  const folder = dirname(file);
  for (const name of await readdir(folder)) {
    const [, pid] = name.startsWith(`${basename(file)}.`) ? (/\.(\d+)-\d+$/.exec(name) ?? []) : [];
    if (pid === undefined) continue;
    const draft = join(folder, name);
    // A truncated draft names its process only in its file name.
    const holder = (await readHolder(draft)) ?? { pid: Number(pid), began: null, host: hostname(), since: "" };
    if (holder !== "gone" && !(await mayLive(holder))) await rm(draft, { force: true });
  }
}

/** Process named in a lock file; `null` if the file names none. */
async function readHolder(file: string): Promise<Holder | "gone" | null> {
  let text: string;
  try {
    text = await readRegular(file, "utf8");
  } catch (error) {
    if (systemCode(error) === "ENOENT") return "gone";
    throw error;
  }
  const { pid, began, host, since } = (jsonOf(text) ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof pid !== "number" || typeof host !== "string") return null;
  return { pid, began: typeof began === "string" ? began : null, host, since: String(since) };
}

async function mayLive({ pid, began, host }: Holder): Promise<boolean> {
  if (host !== hostname()) return true;
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: the process exists, but may not be signalled.
    return systemCode(error) === "EPERM";
  }
  const now = beginOf(pid);
  return began === null || now === null || began === now;
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
