// Files of tasks for environments of the user: `--env ./mine.ts --env-tasks tasks.jsonl`.

import { z } from "zod";
import { ConfigurationError } from "../core/index.ts";
import type { TaskRows } from "../environments/index.ts";
import { openTasks, type RowReader, splitFacts, type TaskOptions } from "../task-files/index.ts";

const rowSchema = z.object({
  id: z.union([z.string().min(1).max(200), z.int()]).nullish(),
  split: z.string().min(1).max(200).nullish(),
});

const defaultSplit = "train";

/** `rest`: the fields of a row that are those of its task. */
function readRow(fields: unknown, place: string): { id: string | null; split: string; rest: Record<string, unknown> } {
  const read = rowSchema.safeParse(fields);
  if (read.success) {
    const { id = null, split } = read.data;
    const rest = Object.entries(fields as object).filter(([name]) => name !== "id" && name !== "split");
    return { id: id === null ? null : String(id), split: split ?? defaultSplit, rest: Object.fromEntries(rest) };
  }
  const [issue] = read.error.issues;
  const what = issue?.path.length === 0 ? "a JSON object" : `another "${String(issue?.path[0])}": short text`;
  throw new ConfigurationError(`Cannot read ${place}: expected ${what}; correct --env-tasks.`, { cause: read.error });
}

const reader: RowReader = {
  name: "module-1",
  defaultSplit,
  read: (fields, place) => {
    const { id, split } = readRow(fields, place);
    return { id, split, traits: [] };
  },
};

/** The environment with the tasks of a file. Rejects with a `ConfigurationError` if it cannot have them. */
export async function withTaskFile(
  environment: unknown,
  file: string,
  { module, ...options }: Pick<TaskOptions, "cwd" | "importDefault"> & { readonly module: string },
): Promise<unknown> {
  if (!takesTasks(environment)) {
    throw new ConfigurationError(
      `Cannot use --env-tasks with "${module}": only what defineEnvironment returns takes tasks of a file; remove the flag.`,
    );
  }
  const table = await openTasks(file, { ...options, reader, flag: "--env-tasks" });
  return environment.withTasks({
    ...splitFacts(table),
    row: (split, index) => {
      const { fields, place } = table.row(split, index);
      const { id, rest } = readRow(fields, place);
      return { id, fields: rest, place };
    },
  });
}

function takesTasks(value: unknown): value is { withTasks(rows: TaskRows): unknown } {
  return typeof value === "object" && value !== null && "withTasks" in value && typeof value.withTasks === "function";
}
