// A tool over the tables of an episode, and the binding of its arguments: as Python binds keyword
// arguments, whose errors a policy reads. No JSON schema is checked, as in the references. Each
// benchmark decides how a result is shown.

import { type PythonError, typeError } from "../../python-semantics/index.ts";
import { cloneJson, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { asKey } from "./fields.ts";
import type { Tables } from "./tables.ts";

export type FoundRecord = {
  readonly table: string;
  readonly id: string;
  /** The record as found, for reading only; `tables.edit` returns the one to change. */
  readonly record: JsonObject;
};

/** Result of a tool. A record stands for its JSON after the call; `null` means None. */
export type TableToolResult = string | FoundRecord | null;

export type TableTool = {
  readonly name: string;
  /** Every argument, in the order of the reference's signature; all are required. */
  readonly parameters: readonly string[];
  /** Runs the tool, which may change the tables; throws a `PythonError` where the reference raises. */
  run(this: void, tables: Tables, args: Readonly<Record<string, JsonValue>>): TableToolResult;
};

/** Infers the argument types of `run` from the parameters. */
export function defineTableTool<const Name extends string>(tool: {
  readonly name: string;
  readonly parameters: readonly Name[];
  run(this: void, tables: Tables, args: Readonly<Record<Name, JsonValue>>): TableToolResult;
}): TableTool {
  return tool;
}

/** The record with an id, which may be of any type; `null` if there is none. */
export function findRecord(tables: Tables, table: string, id: JsonValue): FoundRecord | null {
  // The table is checked first: a table that the data lack raises for every id.
  tables.base.table(table);
  const key = asKey(id);
  const record = key === null ? undefined : tables.read(table, key);
  return key === null || record === undefined ? null : { table, id: key, record };
}

/** A tool that answers with a record, and raises `missing` if there is none. */
export function showTool(
  name: string,
  [parameter, table]: readonly [parameter: string, table: string],
  missing: (id: JsonValue) => PythonError,
): TableTool {
  return {
    name,
    parameters: [parameter],
    run: (tables, args) => {
      const found = findRecord(tables, table, args[parameter]!);
      if (found === null) throw missing(args[parameter]!);
      return found;
    },
  };
}

/** A parameter without a default, or with one. */
export type Parameter = string | readonly [name: string, value: JsonValue];

/**
 * The arguments by parameter, copied, because tools store and change them. `callable`: Python's
 * name of the function. Throws a `PythonError` for unknown keywords and for missing ones.
 */
export function bindArguments(
  callable: string,
  parameters: readonly Parameter[],
  given: JsonObject,
): Record<string, JsonValue> {
  const names = parameters.map((parameter) => (typeof parameter === "string" ? parameter : parameter[0]));
  const bound: Record<string, JsonValue> = {};
  for (const [key, value] of given) {
    if (!names.includes(key)) throw typeError(`${callable} got an unexpected keyword argument '${key}'`);
    bound[key] = cloneJson(value);
  }
  const missing: string[] = [];
  for (const parameter of parameters) {
    const [name, value] = typeof parameter === "string" ? [parameter] : parameter;
    if (Object.hasOwn(bound, name)) continue;
    if (value === undefined) missing.push(`'${name}'`);
    else bound[name] = cloneJson(value);
  }
  if (missing.length === 0) return bound;
  const noun = missing.length === 1 ? "argument" : "arguments";
  throw typeError(`${callable} missing ${missing.length} required positional ${noun}: ${enumerate(missing)}`);
}

/** Lists names as Python does: `a`, `a and b`, `a, b, and c`. */
function enumerate(names: readonly string[]): string {
  const last = names.at(-1)!;
  if (names.length === 1) return last;
  return `${names.slice(0, -1).join(", ")}${names.length > 2 ? "," : ""} and ${last}`;
}
