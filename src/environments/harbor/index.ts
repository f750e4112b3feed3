// Tasks of Harbor, each in a sandbox of its own. The public entry: the source of a folder of tasks.
// Not Harbor: no images and no builds, and what a task wants beyond the sandbox is refused by name.

import { basename, resolve } from "node:path";
import type { EnvironmentSource, OpenOptions, Task } from "../../core/environment.ts";
import { ConfigurationError, messageOf } from "../../core/failure.ts";
import { createTaskset } from "../../core/taskset.ts";
import { removeLeftovers } from "./cgroup.ts";
import { requirePrograms, Sandbox } from "./sandbox.ts";
import { type HarborTask, hashTask, readTasks } from "./task-folder.ts";
import { HarborWorld } from "./world.ts";

export { HarborWorld } from "./world.ts";

export type HarborOptions = {
  /**
   * Tasks that want a network: "refuse" them, run them with "none", or let them share the network of
   * this machine ("host"). @default "refuse"
   */
  readonly network?: "refuse" | "none" | "host";
  /** Variables that the tasks' `${NAME}` may read. @default {} */
  readonly variables?: Readonly<Record<string, string | undefined>>;
  /** True: leaves out tasks that the sandbox cannot run, instead of refusing the folder. @default false */
  readonly skip?: boolean;
  /** Deadline of one command of the policy, in milliseconds. @default 55000 */
  readonly commandMs?: number;
  /** Deadline of the tests of a task, in milliseconds, if the task has none below it. @default 115000 */
  readonly gradeMs?: number;
};

/** A source whose worlds are sandboxes. */
export interface HarborSource extends EnvironmentSource {
  open(task: Task, options?: OpenOptions): Promise<HarborWorld>;
}

const split = "all";
const shownTasks = 20;

/**
 * The tasks of a folder. Rejects with a `ConfigurationError` for a folder or a task that cannot be
 * read, for tasks that want what the sandbox cannot give, and without a working sandbox.
 *
 * @example
 * const source = await harborSource("./tasks");
 * const world = await source.open(source.taskset("all").task(0));
 */
export async function harborSource(folder: string, options: HarborOptions = {}): Promise<HarborSource> {
  const { network = "refuse", skip = false, commandMs = 55_000, gradeMs = 115_000 } = options;
  const path = resolve(folder);
  const read = readTasks(path, { variables: options.variables ?? {} });
  const tasks = chosenTasks(read, { folder, network, skip });
  requirePrograms();
  removeLeftovers();
  await trySandbox();
  const name = `harbor/${basename(path)}`;
  const hashes = new Map<string, string>();
  const hashOf = ({ id, folder: own }: HarborTask): string => {
    const known = hashes.get(id) ?? hashTask(own);
    hashes.set(id, known);
    return known;
  };
  const taskAt = (index: number): Task => {
    const harbor = tasks[index]!;
    const { id, instruction } = harbor;
    const contentHash = hashOf(harbor);
    return { id: `${name}:${split}:${id}`, environment: name, split, index, contentHash, instruction, agenda: null };
  };
  return {
    name,
    splits: [split],
    users: ["task", "human", "scripted"],
    argumentErrors: "loop",
    unknownTools: "loop",
    resume: "restart",
    taskset: (asked) => createTaskset(name, asked, { sizes: { [split]: tasks.length }, task: taskAt }),
    open: async (task, { signal } = { signal: new AbortController().signal, seed: 0 }) => {
      const harbor = tasks[task.index];
      if (harbor === undefined || task.split !== split) {
        throw new RangeError(`Cannot open task "${task.id}": it is not a task of "${name}".`);
      }
      return HarborWorld.open(task, { harbor, limits: { commandMs, gradeMs }, signal });
    },
  };
}

/** The tasks that will run. Throws a `ConfigurationError` that names all others, unless they are to be left out. */
function chosenTasks(
  tasks: readonly HarborTask[],
  { folder, network, skip }: Required<Pick<HarborOptions, "network" | "skip">> & { readonly folder: string },
): readonly HarborTask[] {
  const problems = tasks.map(({ refused, hasNetwork }) =>
    hasNetwork && network === "refuse" ? [...refused, "a network"] : refused,
  );
  const usable = tasks.filter((_task, index) => problems[index]!.length === 0);
  if (usable.length < tasks.length && (!skip || usable.length === 0)) {
    const lines = tasks.flatMap(({ id }, index) =>
      problems[index]!.length === 0 ? [] : [`  ${id}: ${problems[index]!.slice(0, 10).join(", ")}`],
    );
    const more = lines.length > shownTasks ? [`  and ${lines.length - shownTasks} more`] : [];
    const remedies = [
      problems.flat().includes("a network")
        ? "choose --harbor-network none or host for those that want a network"
        : null,
      problems.flat().some((one) => one.startsWith("the variable ")) ? "name variables with --harbor-variables" : null,
      usable.length > 0 ? "leave such tasks out with --harbor-skip" : "run such tasks with Harbor",
    ];
    throw new ConfigurationError(
      [
        `Cannot run ${lines.length} of ${tasks.length} Harbor tasks in "${folder}": they want what the sandbox cannot give; ${remedies.filter((one) => one !== null).join("; ")}.`,
        ...lines.slice(0, shownTasks),
        ...more,
      ].join("\n"),
    );
  }
  return usable.map((task) => ({ ...task, hasNetwork: task.hasNetwork && network === "host" }));
}

let isTried = false;

/** Opens a sandbox once, so that a machine that does not allow one is refused before the first episode. */
async function trySandbox(): Promise<void> {
  if (isTried) return;
  try {
    const sandbox = await Sandbox.open({
      limits: { memoryBytes: 256 * 1024 * 1024, processes: 64, cpus: null },
      storageBytes: 1024 * 1024,
      hasNetwork: false,
      workdir: "/app",
      variables: {},
    });
    try {
      const { output, exitCode } = await sandbox.run({
        run: ["/bin/bash", "-c", "touch x && cat x"],
        timeoutMs: 30_000,
      });
      if (exitCode !== 0) throw new Error(output.trim() || "a command in the sandbox did not end");
    } finally {
      await sandbox.close();
    }
  } catch (error) {
    throw new ConfigurationError(`Cannot run Harbor tasks: ${messageOf(error)}`, { cause: error });
  }
  isTried = true;
}
