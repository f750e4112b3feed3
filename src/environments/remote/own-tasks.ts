// The tasks of an `env-server`, regardless of the protocol: the server describes its environment
// and sends its tasks page by page. The protocol decides how to request them, and how to open an
// episode of a task.

import type { Task } from "../../core/environment.ts";
import { createTaskset } from "../../core/taskset.ts";
import { toPlain } from "../../python-semantics/json/plain.ts";
import type { JsonObject, JsonValue } from "../../python-semantics/json/value.ts";
import { asCount, asList, asObject, asText, fieldOf, orNull } from "./read-message.ts";
import { remoteFault, type RemoteService } from "./remote-service.ts";

/** Maximum number of tasks fetched per split. */
const mostTasks = 2000;
const pageSize = 100;
const where = "what our own server sends";

export type OwnTasks = Pick<
  RemoteService,
  "name" | "splits" | "users" | "argumentErrors" | "unknownTools" | "isDeterministic" | "taskset"
>;

/**
 * Reads the tasks. `about`: the server's description. `page`: fetches some tasks of a split,
 * starting at an index. Rejects with a `remoteFault` for a malformed answer.
 */
export async function readOwnTasks(
  about: JsonObject,
  page: (query: { readonly split: string; readonly from: number; readonly count: number }) => Promise<JsonObject>,
): Promise<OwnTasks> {
  const name = fieldOf(about, "name", asText, where);
  const tasks = new Map<string, readonly Task[]>();
  for (const [split, size] of fieldOf(about, "sizes", asObject, where)) {
    const found: Task[] = [];
    const most = Math.min(asCount.read(size) ?? 0, mostTasks);
    while (found.length < most) {
      const rows = fieldOf(await page({ split, from: found.length, count: pageSize }), "tasks", asList, where);
      if (rows.length === 0) break;
      found.push(...rows.map((row) => readTask(row, { name, split })));
    }
    tasks.set(split, found);
  }
  if (tasks.size === 0) throw remoteFault("remote-invalid", `Cannot read ${where}: it serves no splits.`);
  const answers = (...names: readonly string[]): "environment" | "loop" =>
    names.some((field) => about.get(field) === "environment") ? "environment" : "loop";
  const sizes = Object.fromEntries([...tasks].map(([split, { length }]) => [split, length]));
  return {
    name,
    splits: [...tasks.keys()],
    users: fieldOf(about, "users", asList, where).filter((user) => typeof user === "string"),
    argumentErrors: answers("argument_errors", "argumentErrors"),
    unknownTools: answers("unknown_tools", "unknownTools"),
    isDeterministic: about.get("resume") !== "restart",
    taskset: (split) => createTaskset(name, split, { sizes, task: (index) => tasks.get(split)![index]! }),
  };
}

function readTask(row: JsonValue, { name, split }: { readonly name: string; readonly split: string }): Task {
  const record = asObject.read(row) ?? new Map<string, JsonValue>();
  const agenda = fieldOf(record, "agenda", orNull(asObject), where);
  return {
    id: fieldOf(record, "id", asText, where),
    environment: name,
    split,
    index: fieldOf(record, "index", asCount, where),
    contentHash: fieldOf(record, "contentHash", asText, where),
    instruction: fieldOf(record, "instruction", orNull(asText), where),
    // The shape of an agenda is checked in one place for all tasks.
    agenda: agenda === null ? null : (toPlain(agenda) as Task["agenda"]),
  };
}
