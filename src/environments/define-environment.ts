// An environment in one literal: guidelines, tools as functions over a plain state, tasks, and a grader. For domains
// whose state fits into memory and can be cloned; anything else implements `EnvironmentSource` itself.

import { createHash } from "node:crypto";
import type {
  Agenda,
  Environment,
  Grade,
  LocalEnvironmentSource,
  Task,
  Taskset,
  ToolResult,
} from "../core/environment.ts";
import { AttributedError, messageOf } from "../core/failure.ts";
import { type Tool, toolFromDefinition } from "../core/message.ts";
import { createTaskset } from "../core/taskset.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import { fromForeign, fromPlain, toPlain } from "../python-semantics/json/plain.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";
import { checkDefinition } from "./check-definition.ts";

/** A tool as a function over the episode's state. */
export type ToolSpec<State> = {
  readonly description: string;
  /** JSON Schema of the arguments. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** Default: false. */
  readonly endsEpisode?: boolean;
  /**
   * May change the state, may be asynchronous, and must be deterministic. What it returns, or resolves with, is read by the
   * policy: a string as it is, nothing as `null`, anything else as JSON. What it throws, or rejects with, is read as
   * `Error: <message>`. A result without a JSON form (a function, a symbol, a bigint, NaN, a value that holds itself, an instance
   * of a class without `toJSON`) is a fault: the episode fails at boundary "environment" with code "bad-result". Arguments have
   * passed the schema when the loop calls, and are hostile otherwise.
   */
  run(this: void, args: Readonly<Record<string, unknown>>, state: State): unknown;
};

export type TaskSpec<State> = {
  /** What a user simulated by a model is instructed with. */
  readonly instruction?: string;
  /** What the agenda-based user follows. */
  readonly agenda?: Agenda;
  /** Plain data; every episode gets a clone. */
  readonly state: State;
};

export type EnvironmentDefinition<State> = {
  readonly name: string;
  readonly guidelines: string;
  readonly tools: Readonly<Record<string, ToolSpec<State>>>;
  /** Tasks by split. Their order is their index; keep it. */
  readonly tasks: Readonly<Record<string, readonly TaskSpec<State>[]>>;
  /**
   * Reward of a finished episode, a finite number; may be asynchronous. What it throws, and any other value, is a failure of
   * that episode at boundary "grader". Default for an episode cut off by a limit: 0, without asking.
   */
  grade(
    this: void,
    episode: { readonly state: State; readonly initial: State; readonly said: readonly string[] },
  ): number | Promise<number>;
};

/** Of what a tool returns: values and characters. Far beyond what a policy is shown of it. */
const largestResult = 50_000_000;

/** Throws a `ConfigurationError` that names the place for a definition that is none: a field missing, misspelt or of another type. */
export function defineEnvironment<State>(definition: EnvironmentDefinition<State>): LocalEnvironmentSource {
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
  return {
    name,
    splits,
    users,
    argumentErrors: "loop",
    taskset,
    open: (task) => {
      const spec = definition.tasks[task.split]?.[task.index];
      if (spec === undefined)
        throw new RangeError(`Cannot open task "${task.id}": it is not of environment "${name}".`);
      return createEnvironment(task, definition, { tools, initial: spec.state });
    },
  };
}

function createEnvironment<State>(
  task: Task,
  definition: EnvironmentDefinition<State>,
  parts: { readonly tools: readonly Tool[]; readonly initial: State },
): Environment {
  const initial = structuredClone(parts.initial);
  const state = structuredClone(parts.initial);
  const said: string[] = [];
  return {
    task,
    guidelines: definition.guidelines,
    tools: parts.tools,
    info: new Map(),
    call: ({ name, arguments: given }) => {
      const tool = Object.hasOwn(definition.tools, name) ? definition.tools[name] : undefined;
      if (tool === undefined) return refusal(`unknown tool ${name}`);
      const resultOf = (answer: unknown): ToolResult => {
        const text = resultText(name, answer);
        return { text, isError: false, endsEpisode: tool.endsEpisode ?? false, info: new Map() };
      };
      let answer: unknown;
      let isPromise: boolean;
      try {
        const plain = toPlain(given) as Readonly<Record<string, unknown>>;
        // The policy's mistake, and an observation: a tool that hands such a number back would be blamed for it.
        if (!areFinite(plain)) throw new Error("the arguments hold NaN or an infinity; numbers must be finite");
        answer = tool.run(plain, state);
        isPromise = isThenable(answer);
      } catch (error) {
        return refusal(messageOf(error));
      }
      if (!isPromise) return resultOf(answer);
      return Promise.resolve(answer).then(resultOf, (error: unknown) => refusal(messageOf(error)));
    },
    hear: (utterance) => {
      said.push(utterance);
    },
    grade: ({ outcome }) => {
      if (outcome !== "completed") return gradeOf(0);
      // What the grader does to them is gone when it is called again.
      const reward = definition.grade({ state, initial: structuredClone(initial), said: [...said] });
      return typeof reward === "number" ? gradeOf(reward) : Promise.resolve(reward).then(gradeOf);
    },
    digest: () => sha256(state),
  };
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
  if (!(json instanceof Map)) throw new TypeError("Cannot read a tool definition: it is not an object.");
  return json;
}

function sha256(value: unknown): string {
  return createHash("sha256")
    .update(dumpJson(fromPlain(value)))
    .digest("hex");
}
