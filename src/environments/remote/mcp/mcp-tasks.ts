// The tasks of an environment whose server has none: one task per row of a file. A server offers
// tools; these tasks say what to do with them, and grade the result.

import { createHash } from "node:crypto";
import { isAbsolute, normalize } from "node:path";
import { agendaProblem } from "../../index.ts";
import type { Agenda } from "../../../core/agenda.ts";
import type { Ending } from "../../../core/environment.ts";
import { ConfigurationError, messageOf } from "../../../core/failure.ts";
import { dumpJson } from "../../../python-semantics/json/dump-json.ts";
import { fromPlain } from "../../../python-semantics/json/plain.ts";
import type { ReadResult } from "./result-text.ts";
import { asRecord } from "./result-text.ts";

/** A call of the policy and its result. */
export type McpCallRecord = ReadResult & {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
};

/** A grader's view of a completed episode. */
export type McpGraderInput = {
  readonly task: McpTask;
  readonly calls: readonly McpCallRecord[];
  /** The agent's utterances to the user. */
  readonly said: readonly string[];
  /** The episode's own folder; `null` if the command has no `{folder}`. */
  readonly folder: string | null;
  /** Calls a tool of the same session, to inspect the end state. */
  readonly callTool: (name: string, args?: Readonly<Record<string, unknown>>) => Promise<ReadResult>;
};

type McpGrade = {
  readonly reward: number;
  readonly metrics?: Readonly<Record<string, number>>;
  readonly log?: string;
};

/**
 * Returns the reward of an episode, or the reward with metrics and a log. A truncated episode gets
 * 0 without being graded. An exception, or a reward that is not a finite number, is a failure of
 * the episode at boundary "grader".
 */
export type McpGrader = (input: McpGraderInput) => number | McpGrade | Promise<number | McpGrade>;

export type McpTask = {
  /** Unique among the tasks. */
  readonly id: string;
  readonly split: string;
  /** Instruction for a user simulated by a model, and the utterance of user "task". */
  readonly instruction: string | null;
  readonly agenda: Agenda | null;
  /** Guidelines for the policy; `null` for the instructions that the server gives. */
  readonly guidelines: string | null;
  /** Files written into the episode's own folder before it begins: text by relative path. */
  readonly files: Readonly<Record<string, string>>;
  /** Data that only the grader sees. */
  readonly data: unknown;
  readonly grader: McpGrader;
  /** Hash of all fields above except the code. */
  readonly contentHash: string;
};

/**
 * Tasks by split and number, for tasks that are read when they are run: a million of them need not
 * be in memory.
 */
export interface McpTaskList {
  /** Number of tasks by split; a split has at least one. */
  readonly sizes: Readonly<Record<string, number>>;
  /** Hash of each split as a whole, for `run.json`. @default none */
  readonly hashes?: Readonly<Record<string, string>>;
  /** True if every task has one. */
  readonly hasInstructions: boolean;
  readonly hasAgendas: boolean;
  /** A task with files, by its id or its place, for messages; `null` if none has any. */
  readonly withFiles: string | null;
  /** Throws a `ConfigurationError` for a task that cannot be read. `index` is within the size. */
  task(split: string, index: number): McpTask;
}

/** The tasks in memory as a list. */
export function mcpTaskList(tasks: readonly McpTask[]): McpTaskList {
  const bySplit = new Map<string, McpTask[]>();
  for (const task of tasks) {
    const known = bySplit.get(task.split);
    if (known === undefined) bySplit.set(task.split, [task]);
    else known.push(task);
  }
  return {
    sizes: Object.fromEntries([...bySplit].map(([split, { length }]) => [split, length])),
    hasInstructions: tasks.every(({ instruction }) => instruction !== null),
    hasAgendas: tasks.every(({ agenda }) => agenda !== null),
    withFiles: tasks.find(({ files }) => Object.keys(files).length > 0)?.id ?? null,
    task: (split, index) => bySplit.get(split)![index]!,
  };
}

const keys = ["id", "split", "instruction", "agenda", "guidelines", "files", "data", "grader"];

export type ReadTasksOptions = {
  /** Name of the file, for messages. */
  readonly file: string;
  /** Loads the default export of the module that a task names as its grader. */
  readonly loadGrader: (module: string) => Promise<unknown>;
};

/** Reads tasks from a text in JSON lines. Throws a `ConfigurationError` that names the line. */
export async function readMcpTasks(text: string, { file, loadGrader }: ReadTasksOptions): Promise<readonly McpTask[]> {
  const tasks: McpTask[] = [];
  const graders = new Map<string, McpGrader>();
  const ids = new Set<string>();
  for (const { fields, place } of rowsOf(text, file)) {
    const { grader: module, ...task } = readMcpTask(fields, place);
    if (ids.has(task.id)) throw refuse(place, `its id "${task.id}" is that of another task`);
    ids.add(task.id);
    let grader = graders.get(module);
    if (grader === undefined) {
      grader = checkedGrader(await loadGrader(module), module, place);
      graders.set(module, grader);
    }
    tasks.push({ ...task, grader });
  }
  if (tasks.length > 0) return tasks;
  throw new ConfigurationError(`Cannot read tasks from "${file}": it has none; write one task per line.`);
}

function* rowsOf(text: string, file: string): Generator<{ readonly fields: unknown; readonly place: string }> {
  for (const [index, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const place = `line ${index + 1} of "${file}"`;
    let fields: unknown;
    try {
      fields = JSON.parse(line);
    } catch (error) {
      throw refuse(place, `it is not JSON (${messageOf(error)})`);
    }
    yield { fields, place };
  }
}

/** The default export of the module that a task names as its grader. Throws a `ConfigurationError`. */
export function checkedGrader(loaded: unknown, module: string, place: string): McpGrader {
  if (typeof loaded === "function") return loaded as McpGrader;
  throw refuse(place, `the default export of its grader "${module}" is not a function`);
}

/** A task of which the grader is only named. */
export type McpTaskFields = Omit<McpTask, "grader"> & { readonly grader: string };

/** The task of one row. `place` is that of the row, for messages. Throws a `ConfigurationError`. */
export function readMcpTask(fields: unknown, place: string): McpTaskFields {
  const given = asRecord(fields);
  if (given === null) throw refuse(place, "it is not an object");
  const unknown = Object.keys(given).find((key) => !keys.includes(key));
  if (unknown !== undefined) throw refuse(place, `"${unknown}" is not a field of a task; use ${keys.join(", ")}`);
  const text = (key: string, initial?: string | null): string | null => {
    const value = given[key] ?? initial;
    if (value === null || (typeof value === "string" && value !== "")) return value;
    throw refuse(place, value === undefined ? `"${key}" is missing` : `"${key}" is not a non-empty string`);
  };
  const { agenda = null, data = null } = given;
  const problem = agenda === null ? null : agendaProblem(agenda);
  if (problem !== null) throw refuse(place, problem);
  const task = {
    id: text("id")!,
    split: text("split", "test")!,
    instruction: text("instruction", null),
    agenda: agenda as Agenda | null,
    guidelines: text("guidelines", null),
    files: readFiles(given["files"] ?? {}, place),
    data,
  };
  if (task.instruction === null && task.agenda === null)
    throw refuse(place, "it has neither an instruction nor an agenda");
  const contentHash = createHash("sha256")
    .update(dumpJson(fromPlain(given)))
    .digest("hex");
  return { ...task, contentHash, grader: text("grader")! };
}

function readFiles(value: unknown, place: string): Readonly<Record<string, string>> {
  const files = asRecord(value);
  if (files === null) throw refuse(place, '"files" is not an object');
  for (const [path, text] of Object.entries(files)) {
    if (typeof text !== "string") throw refuse(place, `file "${path}" is not a string`);
    if (isAbsolute(path) || path === "" || normalize(path).startsWith("..")) {
      throw refuse(place, `file "${path}" lies outside the folder`);
    }
  }
  return files as Readonly<Record<string, string>>;
}

function refuse(place: string, problem: string): ConfigurationError {
  return new ConfigurationError(`Cannot read the task of ${place}: ${problem}; correct --env-tasks.`);
}

/** The grade that a grader returns; the reader of the grade checks its types. */
export async function gradeOf(grader: McpGrader, input: McpGraderInput, { outcome }: Ending): Promise<McpGrade> {
  if (outcome !== "completed") return { reward: 0 };
  const answer: unknown = await grader(input);
  return typeof answer === "object" && answer !== null ? (answer as McpGrade) : { reward: answer as number };
}
