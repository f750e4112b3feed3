// What a domain of the benchmark is, how one of its tools is called, whatever it raises becomes an observation, and the tools that both
// domains have. What tools are for the model (descriptions, schemas) is data of the benchmark and stands in `tools.json`.

import { PythonError, typeError } from "../../python-semantics/index.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { bindArguments, calculated, defineTableTool, field, objectField, type TableTool } from "../tables/index.ts";
import type { SharedBase, World } from "./world.ts";

/** What an agent does: a call of a tool, or a message to the customer when the name is `respond`. */
export type TauAction = {
  readonly name: string;
  /** The reference's word for arguments. */
  readonly kwargs: JsonObject;
};

/** The name under which a message is an action. */
export const respondName = "respond";

/** Behaviour of a domain. Its prompts, tables and tasks are data of the benchmark (`domain-data.ts`). */
export type TauDomain = {
  readonly name: string;
  /** Its tables, each a file of records by id, and the shape of a record. */
  readonly tables: Readonly<Record<string, Shape>>;
  readonly splits: readonly string[];
  readonly tools: readonly TableTool[];
  /** Calls of these end the episode, whatever they answer, and are left out when gold actions are replayed. */
  readonly terminating: ReadonlySet<string>;
  /** A record that points to one that is not there, or lacks what its kind needs, as a sentence part; `null` when there is none. */
  findBrokenReference(this: void, base: SharedBase): string | null;
};

export type CallResult = {
  /** `null` where the tool of the reference returns None. */
  readonly observation: string | null;
  readonly endsEpisode: boolean;
};

/** One call on a world, for the environment of our loop and for the reference's own episode. */
export function callAction(domain: TauDomain, world: World, { name, kwargs }: TauAction): CallResult {
  const tool = domain.tools.find((candidate) => candidate.name === name);
  if (tool === undefined) return { observation: `Unknown action ${name}`, endsEpisode: false };
  return {
    observation: runTool(tool, world, { domain: domain.name, kwargs }),
    endsEpisode: domain.terminating.has(name),
  };
}

/** Calls a tool. What it raises is the observation `Error: ...`; the world keeps what it did before. */
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

/** The tool's class in the reference is its name in camel case. */
function bindKeywords(
  { name, parameters }: TableTool,
  { domain, kwargs }: { readonly domain: string; readonly kwargs: JsonObject },
): Record<string, JsonValue> {
  const className = name.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
  const callable = `${className}.invoke()`;
  if (!kwargs.has("data")) return bindArguments(callable, parameters, kwargs);
  throw typeError(`tau_bench.envs.${domain}.tools.${name}.${callable} got multiple values for keyword argument 'data'`);
}

/** What a tool refuses with, of a sentence that begins with a capital. */
export function refusal(sentence: string): PythonError {
  return new PythonError("ValueError", sentence[0]!.toLowerCase() + sentence.slice(1));
}

/** For the model's thoughts; changes and says nothing. */
const think = defineTableTool({ name: "think", parameters: ["thought"], run: () => "" });

/** Ends the episode, even when the call itself fails; that is decided by the domain, not here. */
const transferToHumanAgents = defineTableTool({
  name: "transfer_to_human_agents",
  parameters: ["summary"],
  run: () => "Transfer successful",
});

/** Arithmetic as Python evaluates it, errors included. */
export const calculate = defineTableTool({
  name: "calculate",
  parameters: ["expression"],
  run: (_, { expression }) => calculated(expression) ?? "Error: invalid characters in expression",
});

/** The tools of both domains. */
export const commonTools: readonly TableTool[] = [calculate, think, transferToHumanAgents];

/** The first payment method of the given kind that lacks the amount it holds, as a sentence part; `null` when there is none. */
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

// The shape that tools rely on, checked once when tables are read: a broken file is a mistake of configuration, never an
// observation in the middle of an episode. Only what tools read is described; other fields are free.

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

/** What does not fit first, as `path: what it is`; `null` when all fits. */
export function shapeProblem(value: JsonValue | undefined, shape: Shape, path: string): string | null {
  const problem = findProblem(value, shape);
  return problem === null ? null : `${path}${problem}`;
}

/** Paths are only made for what does not fit. */
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
