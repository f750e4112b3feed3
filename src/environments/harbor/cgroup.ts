// Limits of memory, processes and CPU time of a sandbox by the control groups of Linux, version 1 or
// 2, where this process may create groups. Not a requirement: without them the sandbox limits its
// processes by `ulimit`, and its memory not at all.

import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { threadId } from "node:worker_threads";
import { systemClock } from "../../lib/clock.ts";
import { beginOf } from "../../programs/index.ts";

export type SandboxLimits = {
  readonly memoryBytes: number;
  /** Processes and threads. */
  readonly processes: number;
  /** Number of CPUs; `null`: no limit. */
  readonly cpus: number | null;
};

/** The control group of one sandbox. */
export type ControlGroup = {
  /** Files to which a process writes its id in order to join. */
  readonly joins: readonly string[];
  /** Removes the group; its processes have ended. */
  remove(): Promise<void>;
};

const root = "/sys/fs/cgroup";
const prefix = "trainable-agents-";
/** Threads of a process number their groups apart. */
let count = threadId * 2 ** 32;

/** The files of each limit, by version. */
type Folder = { readonly path: string; readonly limits: Readonly<Record<string, string>> };

function foldersOf(name: string, { memoryBytes, processes, cpus }: SandboxLimits): readonly Folder[] {
  const own = ownGroups();
  const period = 100_000;
  const quota = cpus === null ? null : Math.max(1_000, Math.round(cpus * period));
  const unified = own.get("");
  if (unified !== undefined && existsSync(join(root, "cgroup.controllers"))) {
    const limits = {
      "memory.max": String(memoryBytes),
      "memory.swap.max": "0",
      "pids.max": String(processes),
      ...(quota === null ? {} : { "cpu.max": `${quota} ${period}` }),
    };
    return [{ path: join(root, unified, name), limits }];
  }
  const folder = (controller: string, limits: Folder["limits"]): Folder => ({
    path: join(root, controller, own.get(controller) ?? "/", name),
    limits,
  });
  return [
    folder("memory", { "memory.limit_in_bytes": String(memoryBytes) }),
    folder("pids", { "pids.max": String(processes) }),
    ...(quota === null
      ? []
      : [folder("cpu", { "cpu.cfs_period_us": String(period), "cpu.cfs_quota_us": String(quota) })]),
  ];
}

/** The groups of this process by controller; "" is that of version 2. */
function ownGroups(): ReadonlyMap<string, string> {
  const lines = readFileSync("/proc/self/cgroup", "utf8").split("\n");
  return new Map(
    lines.flatMap((line) => {
      const [, controllers, path] = /^\d+:([^:]*):(.+)$/.exec(line) ?? [];
      return path === undefined ? [] : controllers!.split(",").map((one) => [one, path] as const);
    }),
  );
}

/** Creates a group with the limits; `null` where the machine does not allow it. */
export function createGroup(limits: SandboxLimits): ControlGroup | null {
  const name = `${prefix}${process.pid}-${beginOf("self") ?? 0}-${++count}`;
  const made: string[] = [];
  try {
    const folders = foldersOf(name, limits);
    for (const folder of folders) {
      mkdirSync(folder.path);
      made.push(folder.path);
      for (const [file, value] of Object.entries(folder.limits)) {
        // A kernel without swap accounting has no such file.
        if (file === "memory.swap.max" && !existsSync(join(folder.path, file))) continue;
        writeFileSync(join(folder.path, file), value, { flag: "r+" });
      }
    }
    return { joins: made.map((path) => join(path, "cgroup.procs")), remove: () => removeAll(made) };
  } catch {
    for (const path of made) removeNow(path);
    return null;
  }
}

function removeNow(path: string): boolean {
  try {
    rmdirSync(path);
    return true;
  } catch {
    return !existsSync(path);
  }
}

/** The kernel refuses to remove a group until it has accounted for the end of its last process. */
async function removeAll(paths: readonly string[]): Promise<void> {
  for (let waitMs = 1; waitMs <= 1_024; waitMs *= 2) {
    if (paths.map((path) => removeNow(path)).every(Boolean)) return;
    await systemClock.sleep(waitMs);
  }
}

/** Removes the groups of processes that no longer exist. */
export function removeLeftovers(): void {
  try {
    for (const { path } of foldersOf("", { memoryBytes: 0, processes: 0, cpus: 1 })) {
      for (const name of readdirSync(path)) {
        const [, pid, begin] = /^trainable-agents-(\d+)-(\d+)-\d+$/.exec(name) ?? [];
        if (pid !== undefined && beginOf(Number(pid)) !== begin) removeNow(join(path, name));
      }
    }
  } catch {
    // A machine without control groups has no leftovers.
  }
}
