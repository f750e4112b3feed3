// What a tool of the benchmark is, and how one is called: arguments are bound as Python binds keyword arguments, whatever
// the tool raises becomes an observation. Nothing is checked against the tool's JSON schema; the reference does not either.

import { cloneJson, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { PythonError } from "../../python-semantics/index.ts";
import type { World } from "./world.ts";

/** Behaviour of one tool. Its description for the model is data of the benchmark and stands in `tools.json`. */
export type TauTool = {
  readonly name: string;
  /** Every argument, in the order of the reference's signature; all are required. */
  readonly parameters: readonly string[];
  /** May change the world; throws a `PythonError` where the reference raises. `null` where the reference returns None. */
  run(this: void, world: World, args: Readonly<Record<string, JsonValue>>): string | null;
};

/** Types the arguments of `run` by the parameters. */
export function defineTool<const Parameter extends string>(tool: {
  readonly name: string;
  readonly parameters: readonly Parameter[];
  run(this: void, world: World, args: Readonly<Record<Parameter, JsonValue>>): string | null;
}): TauTool {
  return tool;
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
