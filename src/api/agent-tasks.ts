// A file of tasks for an outside agent program, as an environment: JSON lines, each with an id. The
// program has a world of its own, so nothing can be called here; the program receives the line of
// its task.

import { createHash } from "node:crypto";
import { basename } from "node:path";
import { z } from "zod";
import {
  ConfigurationError,
  type EnvironmentSource,
  faultAt,
  type LocalEnvironmentSource,
  type Task,
  messageOf,
} from "../core/index.ts";
import { createTaskset } from "../core/taskset.ts";
import { systemCode } from "../lib/system-error.ts";
import { readRegular } from "../system/regular-file.ts";

type AgentTask = { readonly id: string; readonly line: string };

/** Has a line for each of its tasks. */
export interface AgentTaskSource extends LocalEnvironmentSource {
  lineOf(task: Task): string;
}

const taskSchema = z.object({ id: z.union([z.string().min(1).max(200), z.int()]) });

/** Throws a `ConfigurationError` that names file and line. */
async function readAgentTasks(path: string): Promise<readonly AgentTask[]> {
  const content = await readRegular(path, "utf8").catch((cause: unknown) => {
    const state = systemCode(cause) === "ENOENT" ? "there is no such file" : messageOf(cause);
    throw new ConfigurationError(`Cannot read tasks from "${path}": ${state}; correct --env.`, { cause });
  });
  const tasks = content.split("\n").flatMap((line, index): AgentTask[] => {
    if (line.trim() === "") return [];
    try {
      return [{ id: String(taskSchema.parse(JSON.parse(line)).id), line: line.trim() }];
    } catch {
      throw new ConfigurationError(
        `Cannot read tasks from "${path}", line ${index + 1}: expected a JSON object with an "id".`,
      );
    }
  });
  const ids = new Set<string>();
  for (const { id } of tasks) {
    if (ids.has(id))
      throw new ConfigurationError(
        `Cannot read tasks from "${path}": two tasks have the id "${id}"; make the ids unique.`,
      );
    ids.add(id);
  }
  if (tasks.length > 0) return tasks;
  throw new ConfigurationError(`Cannot read tasks from "${path}": it has none; write one JSON object per line.`);
}

/** The tasks of a file as an environment. Throws a `ConfigurationError` that names file and line. */
export async function agentTaskSource(path: string): Promise<EnvironmentSource> {
  const lines = await readAgentTasks(path);
  const name = basename(path).replace(/\.jsonl$/, "");
  const shared = { environment: name, split: "train", instruction: null, agenda: null } as const;
  const tasks = lines.map(({ id, line }, index): Task => ({
    ...shared,
    id,
    index,
    contentHash: createHash("sha256").update(line).digest("hex"),
  }));
  const elsewhere = (): never => {
    const message = `Cannot step a task of "${name}": its world belongs to the program; pass --agent-command.`;
    throw faultAt("environment", "no-world", message);
  };
  const source: AgentTaskSource = {
    name,
    splits: ["train"],
    users: ["task"],
    argumentErrors: "loop",
    resume: "restart",
    taskset: (split) => createTaskset(name, split, { sizes: { train: tasks.length }, task: (index) => tasks[index]! }),
    open: (task) => ({
      task,
      guidelines: "",
      tools: [],
      info: new Map(),
      call: elsewhere,
      receiveUtterance: elsewhere,
      grade: elsewhere,
      digest: () => "",
    }),
    lineOf: ({ index }) => lines[index]!.line,
  };
  return source;
}

/**
 * The line that describes a task to a program: the line of its file, or the fields that the
 * environment gives. `user` is the name of the user; the instruction of a simulated user is
 * withheld, because the agent hears it from the user.
 */
export function agentTaskLine(source: EnvironmentSource, task: Task, user: string): string {
  if ("lineOf" in source) return (source as AgentTaskSource).lineOf(task);
  const { id, environment, split, index } = task;
  return JSON.stringify({ id, environment, split, index, instruction: user === "task" ? task.instruction : null });
}
