// Everything that a program of ours has started, however it has detached itself (a session or a process group of its own, a parent that
// is gone): each has inherited a variable, by which Linux shows it in /proc/<pid>/environ. Where there is no /proc nothing is found, and
// only the process group is known (`program.ts`). What clears its environment is not found either.
//
// The variable names the process of ours and counts its programs: `<pid namespace>-<pid>-<begin>/<number>`, one mark for each process of
// ours on the way down, with commas between them. So what a killed process left is known by a process that began later.

import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { beginOf } from "./process-begin.ts";

/** Of the variable. */
export const markName = "TRAINABLE_AGENTS_PROGRAM";

let namespace: string | null = null;
let marks = 0;

/** Numbers of processes mean nothing in another namespace; the same folder of run may be seen from several. */
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

/** A new mark, and the variable with it. */
export function newMark(): { readonly mark: string; readonly variable: string } {
  const mark = `${ownName()}/${++marks}`;
  const inherited = process.env[markName];
  return { mark, variable: inherited === undefined || inherited === "" ? mark : `${inherited},${mark}` };
}

/** Sends a signal to every process with the mark. Returns how many there were. */
export function signalMarked(mark: string, signal: NodeJS.Signals): number {
  return signalWhere((found) => found.includes(mark), signal);
}

/** Kills what programs of this process have started and not ended. */
export function killOwn(): void {
  const prefix = `${ownName()}/`;
  killWhere((found) => found.some((mark) => mark.startsWith(prefix)));
}

/** Kills every process with the mark. */
export function killMarked(mark: string): void {
  killWhere((found) => found.includes(mark));
}

/** Kills what programs of processes that are gone have left. Returns how many there were. */
export function killOrphans(): number {
  return killWhere((found) => found.some(isOrphaned));
}

/** Whoever forks meanwhile is found by the next pass. */
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
      // It has ended.
    }
  }
  return count;
}

function isOrphaned(mark: string): boolean {
  const [, owner = "", pid = "", begin = ""] = /^(\d+)-(\d+)-(\d+)\/\d+$/.exec(mark) ?? [];
  return owner === ownNamespace() && begin !== "0" && beginOf(Number(pid)) !== begin;
}

/** Those that this user may look into. A process that has ended and waits for its parent has no environment any more. */
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
