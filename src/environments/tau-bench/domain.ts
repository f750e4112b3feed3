// The definition of a domain of the benchmark, the call of one of its tools, whose errors always
// become an observation, and the tools that both domains have. The tools' text for the model
// (descriptions, schemas) is data of the benchmark, stored in `tools.json`.

import { PythonError, typeError } from "../../python-semantics/index.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { bindArguments, calculated, defineTableTool, field, objectField, type TableTool } from "../tables/index.ts";
import type { SharedBase, World } from "./world.ts";

/** An action of the agent: a tool call, or a message to the customer if the name is `respond`. */
export type TauAction = {
  readonly name: string;
  /** The arguments, under the reference's name. */
  readonly kwargs: JsonObject;
};

/** The name of an action that is a message. */
export const respondName = "respond";

/** Behaviour of a domain. Its prompts, tables and tasks are data of the benchmark (`domain-data.ts`). */
export type TauDomain = {
  readonly name: string;
  /** Shape of the records of each table, which is a file of records by id. */
  readonly tables: Readonly<Record<string, Shape>>;
  readonly splits: readonly string[];
  readonly tools: readonly TableTool[];
  /**
   * Tools whose calls end the episode, regardless of their answer; they are skipped when gold
   * actions are replayed.
   */
  readonly terminating: ReadonlySet<string>;
  /**
   * A record that refers to a missing record, or lacks a field that its kind needs, as a sentence
   * part; `null` if all are valid.
   */
  findBrokenReference(this: void, base: SharedBase): string | null;
};

export type CallResult = {
  /** Text of the observation; `null` if the tool of the reference returns None. */
  readonly observation: string | null;
  readonly endsEpisode: boolean;
};

/** Runs one call on a world, for the environment of our loop and for the reference's own episode. */
export function callAction(domain: TauDomain, world: World, { name, kwargs }: TauAction): CallResult {
  const tool = domain.tools.find((candidate) => candidate.name === name);
  if (tool === undefined) return { observation: `Unknown action ${name}`, endsEpisode: false };
  return {
    observation: runTool(tool, world, { domain: domain.name, kwargs }),
    endsEpisode: domain.terminating.has(name),
  };
}

/**
 * Calls a tool. An exception becomes the observation `Error: ...`, and earlier changes to the world
 * remain.
 */
export function runTool(
  tool: TableTool,
  world: World,
  call: { readonly domain: string; readonly kwargs: JsonObject },
): string | null {
  try {
    const result = tool.run(world, bindKeywords(tool, call));
    return result === null || typeof result === "string" ? result : world.json(result.table, result.id);
  } catch (error) {
    if (error instanceof PythonError) return `Error: ${error.message}`;
    throw error;
  }
}

/**
 * Binds the arguments. Errors name the tool's class of the reference, which is the tool's name in
 * camel case.
 */
function bindKeywords(
  { name, parameters }: TableTool,
  { domain, kwargs }: { readonly domain: string; readonly kwargs: JsonObject },
): Record<string, JsonValue> {
  const className = name.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
  const callable = `${className}.invoke()`;
  if (!kwargs.has("data")) return bindArguments(callable, parameters, kwargs);
  throw typeError(`tau_bench.envs.${domain}.tools.${name}.${callable} got multiple values for keyword argument 'data'`);
}

/** The error of a refused call, given a sentence that begins with a capital. */
export function refusal(sentence: string): PythonError {
  return new PythonError("ValueError", sentence[0]!.toLowerCase() + sentence.slice(1));
}

/** A tool for the model's thoughts; it changes nothing and returns "". */
const think = defineTableTool({ name: "think", parameters: ["thought"], run: () => "" });

/** A call ends the episode, even if it fails; the domain decides that, not the tool. */
const transferToHumanAgents = defineTableTool({
  name: "transfer_to_human_agents",
  parameters: ["summary"],
  run: () => "Transfer successful",
});

/** Evaluates arithmetic as Python does, errors included. */
export const calculate = defineTableTool({
  name: "calculate",
  parameters: ["expression"],
  run: (_, { expression }) => calculated(expression) ?? "Error: invalid characters in expression",
});

/** Tools of both domains. */
export const commonTools: readonly TableTool[] = [calculate, think, transferToHumanAgents];

/**
 * The first payment method of the given kind without the amount that it should have, as a sentence
 * part; `null` if all have it.
 */
export function findBrokenMethod(
  base: SharedBase,
  holdsMoney: (source: JsonValue) => boolean,
  amount: string,
): string | null {
  for (const [id, record] of base.table("users")) {
    for (const [methodId, method] of objectField(record, "payment_methods")) {
      if (!(method instanceof Map) || !holdsMoney(field(method, "source"))) continue;
      const problem = shapeProblem(
        method,
        { fields: { [amount]: "number" } },
        `users.${id}.payment_methods.${methodId}`,
      );
      if (problem !== null) return problem;
    }
  }
  return null;
}

// The shapes that tools rely on, checked once when tables are read: a broken file is a
// configuration error, never an observation during an episode. Shapes only describe fields that
// tools read; other fields may have any value.

const scalars = {
  any: () => true,
  text: (value: JsonValue) => typeof value === "string",
  bool: (value: JsonValue) => typeof value === "boolean",
  number: (value: JsonValue) => typeof value === "number" || typeof value === "bigint" || value instanceof JsonFloat,
};

export type Shape =
  | keyof typeof scalars
  | { readonly listOf: Shape }
  /** A dict with any keys. */
  | { readonly dictOf: Shape }
  /** A dict with at least these keys. */
  | { readonly fields: Readonly<Record<string, Shape>> };

/** The first mismatch, as `path: fault`; `null` if the value has the shape. */
export function shapeProblem(value: JsonValue | undefined, shape: Shape, path: string): string | null {
  const problem = findProblem(value, shape);
  return problem === null ? null : `${path}${problem}`;
}

/** Builds the path only for a mismatch. */
function findProblem(value: JsonValue | undefined, shape: Shape): string | null {
  if (value === undefined) return " is missing";
  if (typeof shape === "string") return scalars[shape](value) ? null : ` is not a ${shape}`;
  if ("listOf" in shape) {
    if (!Array.isArray(value)) return " is not a list";
    for (const [index, item] of value.entries()) {
      const problem = findProblem(item, shape.listOf);
      if (problem !== null) return `[${index}]${problem}`;
    }
    return null;
  }
  if (!(value instanceof Map)) return " is not an object";
  for (const key of "fields" in shape ? Object.keys(shape.fields) : value.keys()) {
    const problem = findProblem(value.get(key), "fields" in shape ? shape.fields[key]! : shape.dictOf);
    if (problem !== null) return `.${key}${problem}`;
  }
  return null;
}
