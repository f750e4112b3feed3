// An environment in one literal: guidelines, tools as functions over a plain state, tasks, and a
// grader. For domains whose state fits into memory and can be cloned; any other environment
// implements `EnvironmentSource` itself.

import { createHash } from "node:crypto";
import type { Agenda } from "../core/agenda.ts";
import type {
  Environment,
  EnvironmentCallOptions,
  EnvironmentSource,
  Ending,
  Grade,
  LocalEnvironmentSource,
  Task,
  Taskset,
  ToolResult,
} from "../core/environment.ts";
import type { Ranking, Rubric } from "../core/judge.ts";
import { AttributedError, ConfigurationError, messageOf } from "../core/failure.ts";
import { type Tool, toolFromDefinition } from "../core/message.ts";
import { createTaskset } from "../core/taskset.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import { fromForeign, fromPlain, toPlain } from "../python-semantics/json/plain.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";
import { checkDefinition, taskProblem } from "./check-definition.ts";

/** A tool as a function over the episode's state. */
export type ToolSpec<State, Resource = undefined> = {
  readonly description: string;
  /** JSON Schema of the arguments. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** True if a call of this tool ends the episode. Default: false. */
  readonly endsEpisode?: boolean;
  /**
   * Runs the tool. It may change the state, may be asynchronous, and must be deterministic. The
   * policy reads the result, or the value that it resolves with: a string unchanged, `undefined` as
   * `null`, any other value as JSON. The policy reads an exception or rejection as `Error:
   * <message>`, except an error made by `faultAt("environment", ...)` of `trainable-agents/core`,
   * which is a failure of the episode: the service that the tool calls is gone, for example. A
   * result without a JSON form (a function, a symbol, a bigint, NaN, a cyclic value, an instance of
   * a class without `toJSON`) is a fault: the episode fails at boundary "environment" with code
   * "bad-result". Arguments have passed the schema if the loop calls, and are hostile otherwise.
   * `signal` aborts when the answer is no longer awaited.
   */
  run(
    this: void,
    args: Readonly<Record<string, unknown>>,
    state: State,
    context: { readonly signal: AbortSignal; readonly resource: Resource },
  ): unknown;
  /**
   * Reward of a call, computed after it: a finite number, or `null`. A call that was refused or
   * threw has none. An exception, or any other value, is a failure of the episode at boundary
   * "environment". Rewards of calls attribute reward to turns; the reward of the episode is the one
   * that `grade` returns. Default: calls have no rewards.
   */
  reward?(
    this: void,
    call: { readonly args: Readonly<Record<string, unknown>>; readonly state: State; readonly result: unknown },
  ): number | null;
};

export type TaskSpec<State> = {
  /** Instruction for a user simulated by a model. */
  readonly instruction?: string;
  /** Agenda of the agenda-based user. */
  readonly agenda?: Agenda;
  /** Plain data; every episode gets a clone. */
  readonly state: State;
  /**
   * Plain data about the task for statistics, which no policy reads: tables and alarms of a
   * training run use `kind`, `level` and `cases` (a list of names). @default nothing
   */
  readonly info?: Readonly<Record<string, unknown>>;
};

/** Rows that become tasks in place of those of a definition. */
export type TaskRows = {
  /** Number of rows by split; the first split is the default. */
  readonly sizes: Readonly<Record<string, number>>;
  /** SHA-256 (hex) of all rows of a split, in order. */
  readonly hashes: Readonly<Record<string, string>>;
  /** `place`: where the row is, for messages. Throws a `ConfigurationError` if it cannot be read. */
  row(
    split: string,
    index: number,
  ): { readonly id: string | null; readonly fields: Readonly<Record<string, unknown>>; readonly place: string };
};

/** An environment that can have other tasks. */
export type DefinedEnvironment<Source extends EnvironmentSource> = Source & {
  /** The same environment with tasks of rows. Throws a `ConfigurationError` if the first is not a task. */
  withTasks(rows: TaskRows): Source;
};

/** `Resource`: the value that `setup` returns for an episode. */
export type EnvironmentDefinition<State, Resource = undefined> = {
  readonly name: string;
  readonly guidelines: string;
  /**
   * Runs before an episode with the state of its task, which it may change: opens a connection,
   * starts a process. Tools and `grade` receive the result, or the value that it resolves with, as
   * `resource`. An exception is a failure of the episode at boundary "environment". `signal` aborts
   * when the resource is no longer awaited; one that is created nevertheless is torn down. Default:
   * no setup.
   */
  setup?(
    this: void,
    episode: { readonly state: State; readonly task: Task; readonly seed: number; readonly signal: AbortSignal },
  ): Resource | Promise<Resource>;
  /**
   * Runs after an episode, once for each `setup` that succeeded. An exception never changes the
   * outcome. Default: nothing.
   */
  teardown?(this: void, episode: { readonly state: State; readonly resource: Resource }): void | Promise<void>;
  /** Same meaning as in `EnvironmentSource`. Default: "replay". */
  readonly resume?: "replay" | "restart";
  readonly tools: Readonly<Record<string, ToolSpec<State, Resource>>>;
  /**
   * Tasks by split. The position of a task is its index, so keep the order. Default: none, for an
   * environment whose tasks are always those of a file (`--env-tasks`).
   */
  readonly tasks?: Readonly<Record<string, readonly TaskSpec<State>[]>>;
  /**
   * Makes a task of a row of a file, a JSON object without its `id` and `split`; a row is hostile. An
   * exception, or an invalid task, names the row. Default: `state`, `instruction`, `agenda` and `info`
   * of the row are those of the task, and in a row without `state` its other fields are the state.
   */
  fromRow?(this: void, row: Readonly<Record<string, unknown>>): TaskSpec<State>;
  /**
   * Reward of a finished episode, a finite number; may be asynchronous. An exception, or any other
   * value, is a failure of that episode at boundary "grader". An episode truncated by a limit gets
   * 0 without a call, unless {@link gradesTruncated}. If a rubric is given instead, a model grades,
   * truncated episodes too.
   */
  readonly grade: GradeFunction<State, Resource> | Rubric;
  /**
   * True to call `grade` also for episodes truncated by a limit, so that what they achieved counts.
   * @default false
   */
  readonly gradesTruncated?: boolean;
  /**
   * Rubrics and a ranking that grade in addition to `grade`; each value is a metric, the reward is
   * their weighted mean. @default none
   */
  readonly graders?: readonly (Rubric | Ranking)[];
  /**
   * Weight of the value that `grade` returns, relative to those of `graders`. At least 0.
   * @default 1
   */
  readonly gradeWeight?: number;
};

type GradeFunction<State, Resource> = (
  this: void,
  episode: {
    readonly state: State;
    readonly initial: State;
    readonly said: readonly string[];
    /** "truncated": a limit ended the episode. Only with `gradesTruncated`. */
    readonly outcome: Ending["outcome"];
    readonly signal: AbortSignal;
    readonly resource: Resource;
  },
) => number | Promise<number>;

/**
 * Limit on a tool's result: number of values and of characters. Far more than a policy is shown of
 * it.
 */
const largestResult = 50_000_000;

/**
 * Throws a `ConfigurationError` that names the place if the definition is invalid: a field is
 * missing, misspelt or of another type.
 */
export function defineEnvironment<State>(
  definition: EnvironmentDefinition<State> & { readonly setup?: never },
): DefinedEnvironment<LocalEnvironmentSource>;
/** A definition with `setup`: its environments open asynchronously. */
export function defineEnvironment<State, Resource>(
  definition: EnvironmentDefinition<State, Resource>,
): DefinedEnvironment<EnvironmentSource>;
export function defineEnvironment<State, Resource>(
  definition: EnvironmentDefinition<State, Resource>,
): DefinedEnvironment<EnvironmentSource> {
  checkDefinition(definition);
  const { tasks = {} } = definition;
  const own: TaskList<State> = {
    sizes: Object.fromEntries(Object.entries(tasks).map(([split, { length }]) => [split, length])),
    task: (split, index) => ({ id: null, spec: tasks[split]![index]! }),
    haveAgendas: Object.values(tasks)
      .flat()
      .every(({ agenda }) => agenda !== undefined),
  };
  return {
    ...createSource(definition, own),
    withTasks: (rows) => createSource(definition, tasksOfRows(rows, definition)),
  };
}

/** Tasks of an environment, from its definition or a file. */
type TaskList<State> = Pick<TaskRows, "sizes"> & {
  readonly hashes?: TaskRows["hashes"];
  readonly haveAgendas: boolean;
  /** `id`: `null` if the task has none of its own. */
  task(split: string, index: number): { readonly id: string | null; readonly spec: TaskSpec<State> };
};

function tasksOfRows<State, Resource>(
  rows: TaskRows,
  { fromRow }: EnvironmentDefinition<State, Resource>,
): TaskList<State> {
  const task: TaskList<State>["task"] = (split, index) => {
    const { id, fields, place } = rows.row(split, index);
    const refuse = (problem: string, cause?: unknown): never => {
      throw new ConfigurationError(
        `Cannot make a task of ${place}: ${problem.replace(/\.$/, "")}; correct the row, or fromRow of the environment.`,
        { cause },
      );
    };
    let spec: TaskSpec<State>;
    try {
      spec = fromRow === undefined ? specOfRow(fields) : fromRow(fields);
    } catch (error) {
      return refuse(messageOf(error), error);
    }
    const problem = taskProblem(spec);
    return problem === null ? { id, spec } : refuse(problem);
  };
  const { sizes, hashes } = rows;
  const [first = "", size = 0] = Object.entries(sizes)[0] ?? [];
  return { sizes, hashes, task, haveAgendas: size > 0 && task(first, 0).spec.agenda !== undefined };
}

const taskFields = new Set(["state", "instruction", "agenda", "info"]);

/** A row with `state` is a task; one without it is a state, with the other fields of a task beside it. */
function specOfRow<State>(row: Readonly<Record<string, unknown>>): TaskSpec<State> {
  if (row["state"] !== undefined) return row as TaskSpec<State>;
  const parts = (isOfTask: boolean) =>
    Object.fromEntries(Object.entries(row).filter(([name]) => taskFields.has(name) === isOfTask));
  return { ...parts(true), state: parts(false) as State };
}

function createSource<State, Resource>(
  definition: EnvironmentDefinition<State, Resource>,
  list: TaskList<State>,
): EnvironmentSource {
  const { name } = definition;
  const { sizes, hashes = {}, haveAgendas } = list;
  const tools = Object.entries(definition.tools).map(([tool, { description, parameters }]) =>
    toolFromDefinition(asObject({ type: "function", function: { name: tool, description, parameters } })),
  );
  const users = ["llm", "human", "scripted"];
  if (haveAgendas) users.unshift("agenda");

  const taskset = (split: string): Taskset =>
    createTaskset(name, split, {
      sizes,
      hashes,
      task: (index) => {
        const { id, spec } = list.task(split, index);
        const { instruction = null, agenda = null, state } = spec;
        const contentHash = sha256({ name, instruction, agenda, state });
        const own = id ?? `${name}:${split}:${index}`;
        return { id: own, environment: name, split, index, contentHash, instruction, agenda };
      },
    });
  const { grade, graders = [], gradeWeight = 1 } = definition;
  const use = typeof grade === "function" ? graders : [grade, ...graders];
  return {
    name,
    splits: Object.keys(sizes),
    users,
    argumentErrors: "loop",
    ...(definition.resume === undefined ? {} : { resume: definition.resume }),
    ...(use.length === 0 ? {} : { graders: { use, gradeWeight: typeof grade === "function" ? gradeWeight : null } }),
    taskset,
    open: (task, options = { seed: 0, ...unending() }) => {
      const { split, index } = task;
      if (!Object.hasOwn(sizes, split) || !(index >= 0 && index < sizes[split]!))
        throw new RangeError(`Cannot open task "${task.id}": it is not a task of environment "${name}".`);
      const { spec } = list.task(split, index);
      const state = structuredClone(spec.state);
      const parts = { tools, spec, state };
      const make = (resource: Resource): Environment => createEnvironment(task, definition, { ...parts, resource });
      if (definition.setup === undefined) return make(undefined as Resource);
      return Promise.resolve(definition.setup({ state, task, ...options })).then(make);
    },
  };
}

type EpisodeParts<State, Resource> = {
  readonly tools: readonly Tool[];
  readonly spec: TaskSpec<State>;
  readonly state: State;
  readonly resource: Resource;
};

function createEnvironment<State, Resource>(
  task: Task,
  definition: EnvironmentDefinition<State, Resource>,
  { tools, spec, state, resource }: EpisodeParts<State, Resource>,
): Environment {
  const initial = structuredClone(spec.state);
  const said: string[] = [];
  const { teardown } = definition;
  return {
    task,
    guidelines: definition.guidelines,
    tools,
    info: asObject(spec.info ?? {}),
    call: ({ name, arguments: args }, options = unending()) => {
      const tool = Object.hasOwn(definition.tools, name) ? definition.tools[name] : undefined;
      if (tool === undefined) return refusal(`unknown tool ${name}`);
      const resultOf = (result: unknown): ToolResult => {
        const text = resultText(name, result);
        const reward = tool.reward?.({ args: toPlain(args) as Readonly<Record<string, unknown>>, state, result });
        return {
          text,
          isError: false,
          endsEpisode: tool.endsEpisode ?? false,
          info: new Map(),
          ...(reward === undefined ? {} : { reward }),
        };
      };
      let answer: unknown;
      let isPromise: boolean;
      try {
        const plain = toPlain(args) as Readonly<Record<string, unknown>>;
        // The mistake is the policy's, so it becomes an observation: a tool that returned such a
        // number would be blamed for it.
        if (!areFinite(plain)) throw new Error("the arguments hold NaN or an infinity; numbers must be finite");
        answer = tool.run(plain, state, withResource(options, resource));
        isPromise = isThenable(answer);
      } catch (error) {
        return refusalOf(error);
      }
      if (!isPromise) return resultOf(answer);
      return Promise.resolve(answer).then(resultOf, refusalOf);
    },
    receiveUtterance: (utterance) => {
      said.push(utterance);
    },
    grade: ({ outcome }, options = unending()) => {
      // The result of a rubric is not known here: its judge is called separately.
      if (typeof definition.grade !== "function") return gradeOf(0);
      if (outcome !== "completed" && definition.gradesTruncated !== true) return gradeOf(0);
      // Changes that the grader makes to the clones are gone at its next call.
      const episode = { state, initial: structuredClone(initial), said: [...said], outcome };
      const reward = definition.grade(Object.assign(withResource(options, resource), episode));
      return typeof reward === "number" ? gradeOf(reward) : Promise.resolve(reward).then(gradeOf);
    },
    digest: () => sha256(state),
    ...(teardown === undefined ? {} : { close: () => teardown({ state, resource }) }),
  };
}

/** Adds the resource without reading the signal, which is created when a tool first reads it. */
function withResource<Resource>(options: EnvironmentCallOptions, resource: Resource) {
  return {
    get signal() {
      return options.signal;
    },
    resource,
  };
}

/** Options of a call outside of an episode. */
function unending(): EnvironmentCallOptions {
  return { signal: new AbortController().signal };
}

/**
 * The policy reads a tool's exception, unless the tool marks it as a fault that is not the
 * policy's.
 */
function refusalOf(error: unknown): ToolResult {
  if (isFault(error)) throw error;
  return refusal(messageOf(error));
}

/**
 * True for a fault of the environment; a tool knows no other boundary. An error that cannot be read
 * is not a fault.
 */
function isFault(error: unknown): error is AttributedError {
  try {
    return error instanceof AttributedError && error.failure.boundary === "environment";
  } catch {
    return false;
  }
}

function refusal(reason: string): ToolResult {
  return { text: `Error: ${reason}`, isError: true, endsEpisode: false, info: new Map() };
}

function gradeOf(reward: number): Grade {
  return { reward, metrics: {}, log: "", info: new Map() };
}

/** True if every number in a plain value is finite. */
function areFinite(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  return typeof value !== "object" || value === null || Object.values(value).every(areFinite);
}

function resultText(tool: string, answer: unknown): string {
  if (typeof answer === "string") return answer;
  try {
    return dumpJson(fromForeign(answer, { maxSize: largestResult }));
  } catch (error) {
    const message = `Cannot show what tool "${tool}" returned: ${messageOf(error)} Return plain data or a string.`;
    throw new AttributedError(
      { boundary: "environment", code: "bad-result", message, retryable: false, cause: null },
      { cause: error },
    );
  }
}

function isThenable(value: unknown): boolean {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

function asObject(value: unknown): JsonObject {
  const json = fromPlain(value);
  if (!(json instanceof Map)) throw new TypeError("Cannot read a definition: a tool or an info is not an object.");
  return json;
}

function sha256(value: unknown): string {
  return createHash("sha256")
    .update(dumpJson(fromPlain(value)))
    .digest("hex");
}
