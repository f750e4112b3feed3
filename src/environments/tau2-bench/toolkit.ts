// A domain of the benchmark, and the toolkit of each side: its methods, tools among them. A call binds its arguments as Python binds keyword arguments; nothing is
// checked against a tool's JSON schema, because the reference does not either. What a method gives back becomes text as the
// reference makes it.

import { isOrEquals, PythonError, pythonStr, roundFloat, typeError, valueError } from "../../python-semantics/index.ts";
import { dumpJson, JsonFloat, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { asKey, bindArguments, calculated, findRecord, type Parameter, type TableTool } from "../tables/index.ts";
import type { Database, DatabaseSpec } from "./database.ts";

/** What methods work on: the databases of both sides. */
export interface WorldState {
  readonly agent: Database;
  /** The agent's, where the user has no tools. */
  readonly user: Database;
  /** An id for a new record, which the reference draws at random. */
  createId(): string;
}

export type ToolKind = "read" | "write" | "think" | "generic";

/** A record of a data model among what a method gives back: its numbers are shown as numbers, plain ones as text. */
export class ModelResult {
  readonly record: JsonObject;
  constructor(record: JsonObject) {
    this.record = record;
  }
}

export type MethodResult =
  | null
  | boolean
  | number
  | bigint
  | JsonFloat
  | string
  | ModelResult
  | readonly MethodResult[]
  | ReadonlyMap<string, MethodResult>;

export type MethodArguments = Readonly<Record<string, JsonValue>>;

export type Method = {
  readonly name: string;
  readonly parameters: readonly Parameter[];
  /** Of a tool; `null`: only initial states and assertions call it. */
  readonly tool: { readonly kind: ToolKind; readonly mutates: boolean } | null;
  /** May change the world. Throws a `PythonError` where the reference raises. Arguments are copies of its own. */
  readonly run: (world: WorldState, args: MethodArguments) => MethodResult;
};

export type Toolkit = {
  /** The class of the reference, which its error texts name. */
  readonly className: string;
  readonly methods: ReadonlyMap<string, Method>;
};

/** Types the arguments of `run` by the parameters. */
type MethodSpec<Name extends string> = {
  readonly name: string;
  readonly parameters: readonly (Name | readonly [Name, JsonValue])[];
  readonly run: (world: WorldState, args: Readonly<Record<Name, JsonValue>>) => MethodResult;
};

/** A tool; what writes changes the state unless `mutates` says otherwise. */
export function defineTool<const Name extends string>(
  kind: ToolKind,
  spec: MethodSpec<Name> & { readonly mutates?: boolean },
): Method {
  const { mutates = kind === "write", ...method } = spec;
  return { ...method, tool: { kind, mutates } };
}

/** A tool of the agent that the first benchmark has, too. */
export function agentTool(kind: ToolKind, { name, parameters, run }: TableTool): Method {
  return defineTool(kind, {
    name,
    parameters,
    run: ({ agent }, args: MethodArguments) => {
      const result = run(agent, args);
      if (result === null || typeof result === "string") return result;
      return new ModelResult(agent.read(result.table, result.id)!);
    },
  });
}

/** A method that is no tool. */
export function defineMethod<const Name extends string>(spec: MethodSpec<Name>): Method {
  return { ...spec, tool: null };
}

/** Throws a plain error for two methods of one name. */
export function defineToolkit(className: string, methods: readonly Method[]): Toolkit {
  const byName = new Map(methods.map((method) => [method.name, method]));
  if (byName.size < methods.length) throw new Error(`Cannot define ${className}: a method is there twice.`);
  return { className, methods: byName };
}

export function hasTool(toolkit: Toolkit | null, name: string): boolean {
  return (toolkit?.methods.get(name)?.tool ?? null) !== null;
}

/** Calls a method with keyword arguments. Throws a `PythonError` for arguments that it does not take. */
export function callMethod(
  toolkit: Toolkit,
  method: Method,
  { world, given }: { readonly world: WorldState; readonly given: JsonObject },
): MethodResult {
  const place = `${toolkit.className}.${method.name}()`;
  if (given.has("self")) throw typeError(`${place} got multiple values for argument 'self'`);
  return method.run(world, bindArguments(place, method.parameters, given));
}

/** What the caller of a tool reads: a text as it is, anything else as JSON in which plain numbers and truths are texts. */
export function resultText(result: MethodResult): string {
  return typeof result === "string" ? result : dumpJson(asShown(result), { ensureAscii: true });
}

function asShown(result: MethodResult): JsonValue {
  if (result === null || typeof result === "string") return result;
  if (result instanceof ModelResult) return result.record;
  if (Array.isArray(result)) return result.map(asShown);
  if (result instanceof Map) return new Map([...result].map(([key, value]) => [key, asShown(value as MethodResult)]));
  return pythonStr(result as boolean | number | bigint | JsonFloat);
}

/** The error of a name that a toolkit does not have. */
export function toolNotFound(name: string): PythonError {
  return valueError(`Tool '${name}' not found.`);
}

// Tools that several domains have.

/** Says that the customer was handed over, and changes nothing. */
export const transferTool = defineTool("generic", {
  name: "transfer_to_human_agents",
  parameters: ["summary"],
  run: () => "Transfer successful",
});

/** Arithmetic as Python evaluates it, errors included, as a float with at most two decimals. */
export const calculateTool = defineTool("generic", {
  name: "calculate",
  parameters: ["expression"],
  run: (_, { expression }) => {
    const result = calculated(expression);
    if (result === null) throw valueError("Invalid characters in expression");
    return result;
  },
});

// What the tools of several domains do with values as Python does.

/** The id of a record that must be there; raises `ValueError` with `message` otherwise. */
export function requireId(database: Database, table: string, id: JsonValue, message: string): string {
  const found = findRecord(database, table, id);
  if (found === null) throw valueError(message);
  return found.id;
}

/** A field that its model declares a float or an integer. */
export function numberOf(record: JsonObject, key: string): number {
  const value = record.get(key);
  if (value instanceof JsonFloat) return value.value;
  if (typeof value === "number" || typeof value === "bigint") return Number(value);
  throw new PythonError("TypeError", `'${key}' is no number`);
}

/** `element in set`, for one of texts. */
export function isOneOf(element: JsonValue, values: readonly string[]): boolean {
  const key = asKey(element);
  return key !== null && values.some((value) => isOrEquals(value, key));
}

/** `f"{value:.2f}"`. */
export function fixed(value: number, digits: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value < 0 ? "-inf" : "inf";
  if (Math.abs(value) >= 1e21) return `${BigInt(value)}.${"0".repeat(digits)}`;
  return roundFloat(value, digits).toFixed(digits);
}

// What a domain of the benchmark is: the behaviour of both sides, and which files hold what is data. Nothing of the data is here.

/** The tools of a side, and where its database is read from. */
export type DomainSide = {
  readonly toolkit: Toolkit;
  readonly database: DatabaseSpec;
  /** Below the domain's folder, such as `db.json`; TOML where it ends so. */
  readonly file: string;
};

export type Domain = {
  readonly name: string;
  /** The folder of its files; those of variants with another policy share one. */
  readonly folder: string;
  readonly agent: DomainSide;
  /** `null`: the user has no tools. */
  readonly user: DomainSide | null;
  readonly sync: ((world: WorldState) => void) | null;
  /** Why it cannot be played without a user; `null`: it can. */
  readonly soloRefusal: string | null;
  /** The policy, of the texts of its files. */
  readonly policy: {
    readonly files: readonly string[];
    readonly soloFiles: readonly string[];
    readonly assemble: (texts: readonly string[]) => string;
  };
};
