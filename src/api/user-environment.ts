// An environment that a module of the user's exports, checked before anything is played: what it lacks is a sentence about the
// module, not a fault of every episode. What it does while it is played is checked where episodes are (`episodes/`).

import { schemaWarnings } from "../agents/index.ts";
import { ConfigurationError, type EnvironmentSource, messageOf, type Taskset } from "../core/index.ts";
import { openChecked, readTask } from "../rollout/index.ts";

/** Of each split; others are checked when they are taken. */
const checkedTasks = 100;

/** The environment with tasks that are checked when they are taken. Throws a `ConfigurationError` that says what is wrong. */
export function checkedSource(value: unknown, module: string): EnvironmentSource {
  const refuse = (problem: string, cause?: unknown): ConfigurationError =>
    new ConfigurationError(
      `Cannot use "${module}" as an environment: ${problem.replace(/\.$/, "")}; export what defineEnvironment returns.`,
      cause === undefined ? {} : { cause },
    );
  try {
    const missing = missingParts(value);
    if (missing.length > 0) throw refuse(`its default export has no ${missing.join(", ")}`);
    const source = value as EnvironmentSource;
    const taskset = (split: string): Taskset => checkedTaskset(source.taskset(split), module);
    const checked: EnvironmentSource = {
      name: source.name,
      splits: [...source.splits],
      users: [...source.users],
      argumentErrors: source.argumentErrors,
      taskset,
      open: (task) => source.open(task),
    };
    checkTasks(checked);
    return checked;
  } catch (error) {
    throw error instanceof ConfigurationError ? error : refuse(messageOf(error), error);
  }
}

/** What the value lacks to be an `EnvironmentSource`. */
function missingParts(value: unknown): string[] {
  const isText = (part: unknown): boolean => typeof part === "string" && part !== "";
  const isTexts = (part: unknown): boolean => Array.isArray(part) && part.length > 0 && part.every(isText);
  const isFunction = (part: unknown): boolean => typeof part === "function";
  const fields: Readonly<Record<string, (part: unknown) => boolean>> = {
    name: isText,
    splits: isTexts,
    users: isTexts,
    argumentErrors: (part) => part === "environment" || part === "loop",
    taskset: isFunction,
    open: isFunction,
  };
  if (typeof value !== "object" || value === null) return Object.keys(fields);
  const parts = value as Readonly<Record<string, unknown>>;
  return Object.entries(fields).flatMap(([name, fits]) => (fits(parts[name]) ? [] : [name]));
}

function checkedTaskset(taskset: Taskset, module: string): Taskset {
  const { environment, split, size } = taskset;
  if (!Number.isSafeInteger(size) || size < 0) {
    throw new ConfigurationError(
      `Cannot use "${module}" as an environment: the size of split "${split}" is ${String(size)}, a whole number is needed.`,
    );
  }
  return {
    environment,
    split,
    size,
    task: (index) => {
      // Whoever asks beyond the end is told so by the environment.
      if (!(index >= 0 && index < size)) return taskset.task(index);
      try {
        const task = taskset.task(index);
        readTask(task);
        return task;
      } catch (error) {
        const reason = messageOf(error).replace(/\.$/, "");
        throw new ConfigurationError(
          `Cannot take task ${index} of split "${split}" of "${module}": ${reason}; correct the module.`,
          { cause: error },
        );
      }
    },
  };
}

function checkTasks(source: EnvironmentSource): void {
  const places = new Map<string, string>();
  for (const split of source.splits) {
    const taskset = source.taskset(split);
    for (let index = 0; index < Math.min(taskset.size, checkedTasks); index++) {
      const task = taskset.task(index);
      const place = `task ${index} of split "${split}"`;
      const other = places.get(task.id);
      if (other !== undefined) throw new TypeError(`${other} and ${place} have the same id "${task.id}"`);
      places.set(task.id, place);
    }
  }
  if (places.size === 0) throw new TypeError("it has no task");
  checkTools(source);
}

/** A world that cannot be opened is a fault of its episodes, whose tools are then not known. */
function checkTools(source: EnvironmentSource): void {
  const split = source.splits.find((name) => source.taskset(name).size > 0)!;
  let tools: Parameters<typeof schemaWarnings>[0];
  try {
    const opened = openChecked(source, source.taskset(split).task(0));
    if (opened instanceof Promise) {
      opened.catch(() => undefined);
      return;
    }
    ({ tools } = opened);
  } catch {
    return;
  }
  const [warning] = schemaWarnings(tools);
  if (warning !== undefined) throw new TypeError(warning);
}
