// Finds all descendants of a program that we started, however they have detached themselves (their
// own session or process group, an exited parent): each inherits a variable, which Linux shows in
// /proc/<pid>/environ. Without /proc nothing is found, and only the process group is known
// (`program.ts`). A process that clears its environment is not found either.
//
// The variable names our process and numbers its programs: `<pid
// namespace>-<pid>-<begin>/<number>`, one mark for each of our processes from the top down,
// separated by commas. So a process that began later can detect the leftovers of a killed one.

import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { threadId } from "node:worker_threads";
import { beginOf } from "./process-begin.ts";

/** Name of the variable. */
export const markName = "TRAINABLE_AGENTS_PROGRAM";

let namespace: string | null = null;
/** Threads of a process number their programs apart. */
let marks = threadId * 2 ** 32;

/**
 * Process ids are only valid in their namespace, and processes in several namespaces may use the
 * same run folder.
 */
function ownNamespace(): string {
  if (namespace !== null) return namespace;
  try {
    namespace = /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0] ?? "0";
  } catch {
    namespace = "0";
  }
  return namespace;
}

function ownName(): string {
  return `${ownNamespace()}-${process.pid}-${beginOf("self") ?? 0}`;
}

/** Creates a new mark, and the variable with it. */
export function newMark(): { readonly mark: string; readonly variable: string } {
  const mark = `${ownName()}/${++marks}`;
  const inherited = process.env[markName];
  return { mark, variable: inherited === undefined || inherited === "" ? mark : `${inherited},${mark}` };
}

/** Sends a signal to every process with the mark. Returns their number. */
export function signalMarked(mark: string, signal: NodeJS.Signals): number {
  return signalWhere((found) => found.includes(mark), signal);
}

/** Kills all running descendants of programs that this process started. */
export function killOwn(): void {
  const prefix = `${ownName()}/`;
  killWhere((found) => found.some((mark) => mark.startsWith(prefix)));
}

/** Kills every process with the mark. */
export function killMarked(mark: string): void {
  killWhere((found) => found.includes(mark));
}

/** Kills the leftover programs of processes that no longer exist. Returns their number. */
export function killOrphans(): number {
  return killWhere((found) => found.some(isOrphaned));
}

/** Processes that fork during a pass are found by the next one. */
const mostPasses = 10;

function killWhere(isMeant: (marks: readonly string[]) => boolean): number {
  let killed = 0;
  for (let pass = 0; pass < mostPasses; pass++) {
    const count = signalWhere(isMeant, "SIGKILL");
    if (count === 0) break;
    killed += count;
  }
  return killed;
}

function signalWhere(isMeant: (marks: readonly string[]) => boolean, signal: NodeJS.Signals): number {
  let count = 0;
  for (const { pid, marks: found } of markedProcesses()) {
    if (pid === process.pid || !isMeant(found)) continue;
    try {
      process.kill(pid, signal);
      count++;
    } catch {
      // The process has ended.
    }
  }
  return count;
}

function isOrphaned(mark: string): boolean {
  const [, owner = "", pid = "", begin = ""] = /^(\d+)-(\d+)-(\d+)\/\d+$/.exec(mark) ?? [];
  return owner === ownNamespace() && begin !== "0" && beginOf(Number(pid)) !== begin;
}

/**
 * Marked processes whose environment this user may read. A process that has ended and waits for its
 * parent has none.
 */
function* markedProcesses(): Generator<{ readonly pid: number; readonly marks: readonly string[] }> {
  const start = Buffer.from(`${markName}=`);
  let names: readonly string[];
  try {
    names = readdirSync("/proc");
  } catch {
    return;
  }
  for (const name of names) {
    if (!/^\d+$/.test(name)) continue;
    let environment: Buffer;
    try {
      environment = readFileSync(`/proc/${name}/environ`);
    } catch {
      continue;
    }
    for (let at = environment.indexOf(start); at !== -1; at = environment.indexOf(start, at + 1)) {
      if (at > 0 && environment[at - 1] !== 0) continue;
      const end = environment.indexOf(0, at);
      const value = environment.toString("latin1", at + start.length, end === -1 ? undefined : end);
      yield { pid: Number(name), marks: value.split(",") };
      break;
    }
  }
}
