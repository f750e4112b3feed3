// An environment in one literal: guidelines, tools as functions over a plain state, tasks, and a grader. For domains
// whose state fits into memory and can be cloned; anything else implements `EnvironmentSource` itself.

import { createHash } from "node:crypto";
import type {
  Agenda,
  Environment,
  EnvironmentCallOptions,
  EnvironmentSource,
  Grade,
  LocalEnvironmentSource,
  Task,
  Taskset,
  ToolResult,
} from "../core/environment.ts";
import type { Ranking, Rubric } from "../core/judge.ts";
import { AttributedError, messageOf } from "../core/failure.ts";
import { type Tool, toolFromDefinition } from "../core/message.ts";
import { createTaskset } from "../core/taskset.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import { fromForeign, fromPlain, toPlain } from "../python-semantics/json/plain.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";
import { checkDefinition } from "./check-definition.ts";

/** A tool as a function over the episode's state. */
export type ToolSpec<State, Resource = undefined> = {
  readonly description: string;
  /** JSON Schema of the arguments. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** Default: false. */
  readonly endsEpisode?: boolean;
  /**
   * May change the state, may be asynchronous, and must be deterministic. What it returns, or resolves with, is read by the
   * policy: a string as it is, nothing as `null`, anything else as JSON. What it throws, or rejects with, is read as
   * `Error: <message>`; what `faultAt("environment", ...)` of `trainable-agents/core` made is a failure of the episode instead:
   * the service behind the tool is gone, say. A result without a JSON form (a function, a symbol, a bigint, NaN, a value that holds itself, an instance
   * of a class without `toJSON`) is a fault: the episode fails at boundary "environment" with code "bad-result". Arguments have
   * passed the schema when the loop calls, and are hostile otherwise. `signal` aborts when nobody waits for the answer any more.
   */
  run(
    this: void,
    args: Readonly<Record<string, unknown>>,
    state: State,
    context: { readonly signal: AbortSignal; readonly resource: Resource },
  ): unknown;
  /**
   * What a call was worth, after it: a finite number, or `null`. A call that was refused or threw has none. What it throws, and
   * any other value, is a failure of the episode at boundary "environment". Rewards of calls say which turn earned what; the
   * reward of the episode is what `grade` returns. Default: calls have no rewards.
   */
  reward?(
    this: void,
    call: { readonly args: Readonly<Record<string, unknown>>; readonly state: State; readonly result: unknown },
  ): number | null;
};

export type TaskSpec<State> = {
  /** What a user simulated by a model is instructed with. */
  readonly instruction?: string;
  /** What the agenda-based user follows. */
  readonly agenda?: Agenda;
  /** Plain data; every episode gets a clone. */
  readonly state: State;
  /**
   * Plain data about the task for whoever counts, which no policy reads: `kind`, `level` and `cases` (a list of names) make the tables
   * and alarms of a training. @default nothing
   */
  readonly info?: Readonly<Record<string, unknown>>;
};

/** `Resource`: what `setup` makes for an episode. */
export type EnvironmentDefinition<State, Resource = undefined> = {
  readonly name: string;
  readonly guidelines: string;
  /**
   * Before an episode, from the state of its task, which it may change: opens a connection, starts a process. Tools and `grade`
   * get what it returns, or resolves with, as `resource`. What it throws is a failure of the episode at boundary "environment".
   * `signal` aborts when nobody waits any more; what is made all the same is torn down. Default: nothing is set up.
   */
  setup?(
    this: void,
    episode: { readonly state: State; readonly task: Task; readonly seed: number; readonly signal: AbortSignal },
  ): Resource | Promise<Resource>;
  /** After an episode, once for each `setup` that succeeded. What it throws never changes the outcome. Default: nothing. */
  teardown?(this: void, episode: { readonly state: State; readonly resource: Resource }): void | Promise<void>;
  /** As in `EnvironmentSource`. Default: "replay". */
  readonly resume?: "replay" | "restart";
  readonly tools: Readonly<Record<string, ToolSpec<State, Resource>>>;
  /** Tasks by split. Their order is their index; keep it. */
  readonly tasks: Readonly<Record<string, readonly TaskSpec<State>[]>>;
  /**
   * Reward of a finished episode, a finite number; may be asynchronous. What it throws, and any other value, is a failure of
   * that episode at boundary "grader". Default for an episode cut off by a limit: 0, without asking. A rubric in its place: a
   * model grades, cut-off episodes too.
   */
  readonly grade: GradeFunction<State, Resource> | Rubric;
  /** Rubrics and a ranking that grade beside `grade`; each value is a metric, the reward their mean by weight. @default none */
  readonly graders?: readonly (Rubric | Ranking)[];
  /** Weight of what `grade` returns, among those of `graders`. At least 0. @default 1 */
  readonly gradeWeight?: number;
};

type GradeFunction<State, Resource> = (
  this: void,
  episode: {
    readonly state: State;
    readonly initial: State;
    readonly said: readonly string[];
    readonly signal: AbortSignal;
    readonly resource: Resource;
  },
) => number | Promise<number>;

/** Of what a tool returns: values and characters. Far beyond what a policy is shown of it. */
const largestResult = 50_000_000;

/** Throws a `ConfigurationError` that names the place for a definition that is none: a field missing, misspelt or of another type. */
export function defineEnvironment<State>(
  definition: EnvironmentDefinition<State> & { readonly setup?: never },
): LocalEnvironmentSource;
/** With `setup`, environments open in time. */
export function defineEnvironment<State, Resource>(
  definition: EnvironmentDefinition<State, Resource>,
): EnvironmentSource;
export function defineEnvironment<State, Resource>(
  definition: EnvironmentDefinition<State, Resource>,
): EnvironmentSource {
  checkDefinition(definition);
  const { name } = definition;
  const splits = Object.keys(definition.tasks);
  const tools = Object.entries(definition.tools).map(([tool, { description, parameters }]) =>
    toolFromDefinition(asObject({ type: "function", function: { name: tool, description, parameters } })),
  );
  const specs = Object.values(definition.tasks).flat();
  const users = ["llm", "human", "scripted"];
  if (specs.every((spec) => spec.agenda !== undefined)) users.unshift("agenda");

  const taskset = (split: string): Taskset =>
    createTaskset(name, split, {
      sizes: Object.fromEntries(splits.map((known) => [known, definition.tasks[known]!.length])),
      task: (index) => {
        const { instruction = null, agenda = null, state } = definition.tasks[split]![index]!;
        const contentHash = sha256({ name, instruction, agenda, state });
        return { id: `${name}:${split}:${index}`, environment: name, split, index, contentHash, instruction, agenda };
      },
    });
  const { grade, graders = [], gradeWeight = 1 } = definition;
  const use = typeof grade === "function" ? graders : [grade, ...graders];
  return {
    name,
    splits,
    users,
    argumentErrors: "loop",
    ...(definition.resume === undefined ? {} : { resume: definition.resume }),
    ...(use.length === 0 ? {} : { graders: { use, gradeWeight: typeof grade === "function" ? gradeWeight : null } }),
    taskset,
    open: (task, options = { seed: 0, ...unending() }) => {
      const spec = definition.tasks[task.split]?.[task.index];
      if (spec === undefined)
        throw new RangeError(`Cannot open task "${task.id}": it is not of environment "${name}".`);
      const state = structuredClone(spec.state);
      const parts = { tools, initial: spec.state, state };
      const make = (resource: Resource): Environment => createEnvironment(task, definition, { ...parts, resource });
      if (definition.setup === undefined) return make(undefined as Resource);
      return Promise.resolve(definition.setup({ state, task, ...options })).then(make);
    },
  };
}

type EpisodeParts<State, Resource> = {
  readonly tools: readonly Tool[];
  readonly initial: State;
  readonly state: State;
  readonly resource: Resource;
};

function createEnvironment<State, Resource>(
  task: Task,
  definition: EnvironmentDefinition<State, Resource>,
  { tools, initial: given, state, resource }: EpisodeParts<State, Resource>,
): Environment {
  const initial = structuredClone(given);
  const said: string[] = [];
  const { teardown } = definition;
  return {
    task,
    guidelines: definition.guidelines,
    tools,
    info: asObject(definition.tasks[task.split]?.[task.index]?.info ?? {}),
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
        // The policy's mistake, and an observation: a tool that hands such a number back would be blamed for it.
        if (!areFinite(plain)) throw new Error("the arguments hold NaN or an infinity; numbers must be finite");
        answer = tool.run(plain, state, withResource(options, resource));
        isPromise = isThenable(answer);
      } catch (error) {
        return refusalOf(error);
      }
      if (!isPromise) return resultOf(answer);
      return Promise.resolve(answer).then(resultOf, refusalOf);
    },
    hear: (utterance) => {
      said.push(utterance);
    },
    grade: ({ outcome }, options = unending()) => {
      // Of a rubric, nothing is known here: its judge is asked beside this.
      if (outcome !== "completed" || typeof definition.grade !== "function") return gradeOf(0);
      // What the grader does to them is gone when it is called again.
      const episode = { state, initial: structuredClone(initial), said: [...said] };
      const reward = definition.grade(Object.assign(withResource(options, resource), episode));
      return typeof reward === "number" ? gradeOf(reward) : Promise.resolve(reward).then(gradeOf);
    },
    digest: () => sha256(state),
    ...(teardown === undefined ? {} : { close: () => teardown({ state, resource }) }),
  };
}

/** Without looking at the signal, which is made when a tool does. */
function withResource<Resource>(options: EnvironmentCallOptions, resource: Resource) {
  return {
    get signal() {
      return options.signal;
    },
    resource,
  };
}

/** Of a call outside of an episode. */
function unending(): EnvironmentCallOptions {
  return { signal: new AbortController().signal };
}

/** What a tool throws is read by the policy, unless the tool says that the fault is not the policy's. */
function refusalOf(error: unknown): ToolResult {
  if (isFault(error)) throw error;
  return refusal(messageOf(error));
}

/** Of the environment; a tool knows nothing of other boundaries. What cannot be read is none. */
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

/** Whether every number in a plain value is finite. */
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
