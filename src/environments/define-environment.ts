// An environment in one literal: guidelines, tools as functions over a plain state, tasks, and a grader. For domains
// whose state fits into memory and can be cloned; anything else implements `EnvironmentSource` itself.

import { createHash } from "node:crypto";
import type {
  Agenda,
  Ending,
  Environment,
  EnvironmentCall,
  EnvironmentSource,
  Grade,
  ToolResult,
  Task,
  Taskset,
} from "../core/environment.ts";
import { AttributedError, ConfigurationError, messageOf } from "../core/failure.ts";
import { type Tool, toolFromDefinition } from "../core/message.ts";
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
export function defineEnvironment<State>(definition: EnvironmentDefinition<State>): EnvironmentSource {
  checkDefinition(definition);
  const { name, guidelines } = definition;
  const splits = Object.keys(definition.tasks);
  const tools = Object.entries(definition.tools).map(([tool, { description, parameters }]) =>
    toolFromDefinition(asObject({ type: "function", function: { name: tool, description, parameters } })),
  );
  const specs = Object.values(definition.tasks).flat();
  const users = ["llm", "human", "scripted"];
  if (specs.every((spec) => spec.agenda !== undefined)) users.unshift("agenda");

  const taskset = (split: string): Taskset => {
    const tasks = definition.tasks[split];
    if (tasks === undefined) {
      throw new ConfigurationError(
        `Cannot open split "${split}" of environment "${name}": it has ${splits.map((known) => `"${known}"`).join(", ")}.`,
      );
    }
    return {
      environment: name,
      split,
      size: tasks.length,
      task: (index) => {
        const spec = tasks[index];
        if (spec === undefined) {
          throw new RangeError(
            `Cannot find task ${index} of "${name}" (${split}): indexes go from 0 to ${tasks.length - 1}.`,
          );
        }
        const { instruction = null, agenda = null, state } = spec;
        const contentHash = sha256({ name, instruction, agenda, state });
        return { id: `${name}:${split}:${index}`, environment: name, split, index, contentHash, instruction, agenda };
      },
    };
  };
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
      return new DefinedEnvironment(task, { guidelines, tools, definition, initial: spec.state });
    },
  };
}

class DefinedEnvironment<State> implements Environment {
  readonly task: Task;
  readonly guidelines: string;
  readonly tools: readonly Tool[];
  readonly info: JsonObject = new Map();
  readonly #definition: EnvironmentDefinition<State>;
  readonly #initial: State;
  readonly #state: State;
  readonly #said: string[] = [];

  constructor(
    task: Task,
    parts: { guidelines: string; tools: readonly Tool[]; definition: EnvironmentDefinition<State>; initial: State },
  ) {
    this.task = task;
    this.guidelines = parts.guidelines;
    this.tools = parts.tools;
    this.#definition = parts.definition;
    this.#initial = structuredClone(parts.initial);
    this.#state = structuredClone(parts.initial);
  }

  call({ name, arguments: given }: EnvironmentCall): ToolResult | Promise<ToolResult> {
    const tool = Object.hasOwn(this.#definition.tools, name) ? this.#definition.tools[name] : undefined;
    if (tool === undefined) return this.#result(`Error: unknown tool ${name}`, { isError: true, endsEpisode: false });
    const refuse = (error: unknown): ToolResult =>
      this.#result(`Error: ${messageOf(error)}`, { isError: true, endsEpisode: false });
    const answerWith = (answer: unknown): ToolResult =>
      this.#result(resultText(name, answer), { isError: false, endsEpisode: tool.endsEpisode ?? false });
    let answer: unknown;
    let isPromise: boolean;
    try {
      const plain = toPlain(given) as Readonly<Record<string, unknown>>;
      // The policy's mistake, and an observation: a tool that hands such a number back would be blamed for it.
      if (!areFinite(plain)) throw new Error("the arguments hold NaN or an infinity; numbers must be finite");
      answer = tool.run(plain, this.#state);
      isPromise = isThenable(answer);
    } catch (error) {
      return refuse(error);
    }
    return isPromise ? Promise.resolve(answer).then(answerWith, refuse) : answerWith(answer);
  }

  hear(utterance: string): void {
    this.#said.push(utterance);
  }

  grade({ outcome }: Ending): Grade | Promise<Grade> {
    if (outcome !== "completed") return gradeOf(0);
    // What the grader does to them is gone when it is called again.
    const [initial, said] = [structuredClone(this.#initial), [...this.#said]];
    const reward = this.#definition.grade({ state: this.#state, initial, said });
    return typeof reward === "number" ? gradeOf(reward) : Promise.resolve(reward).then(gradeOf);
  }

  digest(): string {
    return sha256(this.#state);
  }

  #result(text: string, flags: Pick<ToolResult, "isError" | "endsEpisode">): ToolResult {
    return { text, ...flags, info: new Map() };
  }
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
