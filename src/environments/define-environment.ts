// An environment in one literal: guidelines, tools as functions over a plain state, tasks, and a grader. For domains
// whose state fits into memory and can be cloned; anything else implements `EnvironmentSource` itself.

import { createHash } from "node:crypto";
import type { Agenda } from "../core/agenda.ts";
import type { Ending, Environment, EnvironmentSource, Grade, ToolResult } from "../core/environment.ts";
import { ConfigurationError } from "../core/failure.ts";
import type { Task, Taskset } from "../core/task.ts";
import { type Tool, toolFromDefinition } from "../core/tool.ts";
import { dumpJson } from "../lib/json/dump-json.ts";
import { fromPlain, toPlain } from "../lib/json/plain.ts";
import type { JsonObject } from "../lib/json/value.ts";

/** A tool as a function over the episode's state. */
export type ToolSpec<State> = {
  readonly description: string;
  /** JSON Schema of the arguments. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** Default: false. */
  readonly endsEpisode?: boolean;
  /**
   * May change the state and must be deterministic. A string is read as it is, anything else as JSON; what it throws is
   * read as `Error: <message>`. Arguments have passed the schema when the loop calls, and are hostile otherwise.
   */
  run(this: void, args: Readonly<Record<string, unknown>>, state: State): unknown;
};

export type TaskSpec<State> = {
  /** What a user simulated by a model is told. */
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
  /** Reward of a finished episode. Default for one cut off by a limit: 0, without asking. */
  grade(
    this: void,
    episode: { readonly state: State; readonly initial: State; readonly said: readonly string[] },
  ): number;
};

/** Throws a `ConfigurationError` for a definition without tools or tasks. */
export function defineEnvironment<State>(definition: EnvironmentDefinition<State>): EnvironmentSource {
  const { name, guidelines } = definition;
  const splits = Object.keys(definition.tasks);
  if (Object.keys(definition.tools).length === 0 || splits.every((split) => definition.tasks[split]?.length === 0)) {
    throw new ConfigurationError(`Cannot define environment "${name}": it needs at least one tool and one task.`);
  }
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

  call({ name, arguments: args }: { readonly name: string; readonly arguments: JsonObject }): ToolResult {
    const tool = Object.hasOwn(this.#definition.tools, name) ? this.#definition.tools[name] : undefined;
    if (tool === undefined) return this.#result(`Error: unknown tool ${name}`, { isError: true, endsEpisode: false });
    const endsEpisode = tool.endsEpisode ?? false;
    try {
      const answer = tool.run(toPlain(args) as Readonly<Record<string, unknown>>, this.#state);
      const text = typeof answer === "string" ? answer : dumpJson(fromPlain(answer));
      return this.#result(text, { isError: false, endsEpisode });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      return this.#result(`Error: ${message}`, { isError: true, endsEpisode: false });
    }
  }

  hear(words: string): void {
    this.#said.push(words);
  }

  grade({ outcome }: Ending): Grade {
    const episode = { state: this.#state, initial: this.#initial, said: this.#said };
    const reward = outcome === "completed" ? this.#definition.grade(episode) : 0;
    return { reward, metrics: {}, log: "", info: new Map() };
  }

  digest(): string {
    return sha256(this.#state);
  }

  #result(text: string, flags: Pick<ToolResult, "isError" | "endsEpisode">): ToolResult {
    return { text, ...flags, info: new Map() };
  }
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
