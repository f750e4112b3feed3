// What a domain and a tool of the benchmark are, and how one is called: arguments are bound as Python binds keyword arguments, whatever
// the tool raises becomes an observation. Nothing is checked against the tool's JSON schema; the reference does not either.

import { cloneJson, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { PythonError } from "../../python-semantics/index.ts";
import type { Shape } from "./table-shape.ts";
import type { SharedBase, World } from "./world.ts";

/** What an agent does: a call of a tool, or a message to the customer when the name is `respond`. */
export type TauAction = {
  readonly name: string;
  /** The reference's word for arguments. */
  readonly kwargs: JsonObject;
};

/** The name under which a message is an action. */
export const respondName = "respond";

/** Behaviour of one tool. Its description for the model is data of the benchmark and stands in `tools.json`. */
export type TauTool = {
  readonly name: string;
  /** Every argument, in the order of the reference's signature; all are required. */
  readonly parameters: readonly string[];
  /** May change the world; throws a `PythonError` where the reference raises. `null` where the reference returns None. */
  run(this: void, world: World, args: Readonly<Record<string, JsonValue>>): string | null;
};

/** Behaviour of a domain. Its prompts, tables and tasks are data of the benchmark (`domain-data.ts`). */
export type TauDomain = {
  readonly name: string;
  /** Its tables, each a file of records by id, and the shape of a record. */
  readonly tables: Readonly<Record<string, Shape>>;
  readonly splits: readonly string[];
  readonly tools: readonly TauTool[];
  /** Calls of these end the episode, whatever they answer, and are left out when gold actions are replayed. */
  readonly terminating: ReadonlySet<string>;
  /** A record that points to one that is not there, or lacks what its kind needs, as a sentence part; `null` when there is none. */
  findBrokenReference(this: void, base: SharedBase): string | null;
};

/** Types the arguments of `run` by the parameters. */
export function defineTool<const Parameter extends string>(tool: {
  readonly name: string;
  readonly parameters: readonly Parameter[];
  run(this: void, world: World, args: Readonly<Record<Parameter, JsonValue>>): string | null;
}): TauTool {
  return tool;
}

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
  tool: TauTool,
  world: World,
  call: { readonly domain: string; readonly kwargs: JsonObject },
): string | null {
  try {
    return tool.run(world, bindArguments(tool, call));
  } catch (error) {
    if (error instanceof PythonError) return `Error: ${error.message}`;
    throw error;
  }
}

/** Copies what it binds: tools store arguments in the world and change them there. */
function bindArguments(
  tool: TauTool,
  { domain, kwargs }: { readonly domain: string; readonly kwargs: JsonObject },
): Record<string, JsonValue> {
  const { parameters } = tool;
  if (kwargs.has("data")) {
    const path = `tau_bench.envs.${domain}.tools.${tool.name}.`;
    throw bindingError(tool, "got multiple values for keyword argument 'data'", path);
  }
  const bound: Record<string, JsonValue> = {};
  for (const [key, value] of kwargs) {
    if (!parameters.includes(key)) throw bindingError(tool, `got an unexpected keyword argument '${key}'`);
    bound[key] = cloneJson(value);
  }
  if (kwargs.size < parameters.length) {
    const missing = parameters.filter((name) => !kwargs.has(name)).map((name) => `'${name}'`);
    const noun = missing.length === 1 ? "argument" : "arguments";
    throw bindingError(tool, `missing ${missing.length} required positional ${noun}: ${enumerate(missing)}`);
  }
  return bound;
}

/** The tool's class in the reference is its name in camel case. */
function bindingError(tool: TauTool, problem: string, path = ""): PythonError {
  const className = tool.name.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return new PythonError("TypeError", `${path}${className}.invoke() ${problem}`);
}

/** `a`, `a and b`, `a, b, and c`. */
function enumerate(names: readonly string[]): string {
  const last = names.at(-1)!;
  if (names.length === 1) return last;
  return `${names.slice(0, -1).join(", ")}${names.length > 2 ? "," : ""} and ${last}`;
}
