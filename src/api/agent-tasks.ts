// A file of tasks for an outside agent program, as an environment: JSON lines, CSV or Parquet, each
// row with an id. The program has a world of its own, so nothing can be called here; the program
// receives the line of its task, which is JSON in any case.

import { createHash } from "node:crypto";
import { basename } from "node:path";
import { z } from "zod";
import {
  ConfigurationError,
  type EnvironmentSource,
  faultAt,
  type LocalEnvironmentSource,
  type Task,
} from "../core/index.ts";
import { createTaskset } from "../core/taskset.ts";
import { openTasks, type RowReader, type TaskOptions } from "../task-files/index.ts";

/** Has a line for each of its tasks. */
export interface AgentTaskSource extends LocalEnvironmentSource {
  lineOf(task: Task): string;
}

const taskSchema = z.object({ id: z.union([z.string().min(1).max(200), z.int()]) });

const idOf = (fields: unknown): string => String(taskSchema.parse(fields).id);

const reader: RowReader = {
  name: "agent-1",
  defaultSplit: "train",
  read: (fields, place) => {
    try {
      return { id: idOf(fields), split: "train", traits: [] };
    } catch (cause) {
      throw new ConfigurationError(`Cannot read ${place}: expected a JSON object with an "id"; correct --env.`, {
        cause,
      });
    }
  },
};

/** The tasks of a file as an environment. Throws a `ConfigurationError` that names file and line. */
export async function agentTaskSource(
  path: string,
  options: Pick<TaskOptions, "cwd" | "importDefault">,
): Promise<EnvironmentSource> {
  const table = await openTasks(path, { ...options, reader, flag: "--env" });
  const name = basename(path).replace(/\.(?:jsonl|csv|parquet)$/i, "");
  const shared = { environment: name, split: "train", instruction: null, agenda: null } as const;
  const { size, hash } = table.splits[0]!;
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
    taskset: (split) =>
      createTaskset(name, split, {
        sizes: { train: size },
        hashes: { train: hash },
        task: (index) => {
          const { fields, text } = table.row("train", index);
          return { ...shared, id: idOf(fields), index, contentHash: createHash("sha256").update(text).digest("hex") };
        },
      }),
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
    lineOf: ({ index }) => table.row("train", index).text,
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
