// A domain of the benchmark, and the toolkit of each side with its methods, tools included. A call
// binds its arguments as Python binds keyword arguments; tools' JSON schemas are not checked, as in
// the reference. Results of methods become text as in the reference.

import { isOrEquals, PythonError, pythonStr, roundFloat, typeError, valueError } from "../../python-semantics/index.ts";
import { dumpJson, JsonFloat, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { asKey, bindArguments, calculated, findRecord, type Parameter, type TableTool } from "../tables/index.ts";
import type { Database, DatabaseSpec } from "./database.ts";

/** The state on which methods operate: the databases of both sides. */
export interface WorldState {
  readonly agent: Database;
  /** The user's database; the agent's if the user has no tools. */
  readonly user: Database;
  /** An id for a new record, which the reference draws at random. */
  createId(): string;
  /** Names of tools that the agent has unlocked in this episode. They are not in the databases. */
  readonly unlocked: Set<string>;
  /** Names of tools whose calls are recorded in the database although they change nothing. */
  readonly loggedReads: ReadonlySet<string>;
}

export type ToolKind = "read" | "write" | "think" | "generic";

/**
 * A record of a data model within a method's result: its numbers are shown as numbers, other
 * numbers as text.
 */
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
  /** Properties of a tool; `null` for a method that only initial states and assertions call. */
  readonly tool: { readonly kind: ToolKind; readonly mutates: boolean; readonly isDiscoverable?: boolean } | null;
  /** Name of the reference's class that defines the method. @default the toolkit's */
  readonly className?: string;
  /**
   * Runs the method, which may change the world. Throws a `PythonError` where the reference raises.
   * Arguments are its own copies.
   */
  readonly run: (world: WorldState, args: MethodArguments) => MethodResult;
};

export type Toolkit = {
  /** Name of the reference's class, for its error messages. */
  readonly className: string;
  readonly methods: ReadonlyMap<string, Method>;
};

/** Infers the argument types of `run` from the parameters. */
type MethodSpec<Name extends string> = {
  readonly name: string;
  readonly parameters: readonly (Name | readonly [Name, JsonValue])[];
  readonly run: (world: WorldState, args: Readonly<Record<Name, JsonValue>>) => MethodResult;
};

/** Defines a tool; one of kind "write" changes the state unless `mutates` is false. */
export function defineTool<const Name extends string>(
  kind: ToolKind,
  spec: MethodSpec<Name> & { readonly mutates?: boolean; readonly className?: string },
): Method {
  const { mutates = kind === "write", ...method } = spec;
  return { ...method, tool: { kind, mutates } };
}

/** Defines a tool that models are not shown: they find its name elsewhere, and call it through another tool. */
export function defineDiscoverableTool<const Name extends string>(kind: ToolKind, spec: MethodSpec<Name>): Method {
  return { ...spec, tool: { kind, mutates: kind === "write", isDiscoverable: true } };
}

/** A tool of the agent that also exists in the first benchmark. */
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

/** Defines a method that is not a tool. */
export function defineMethod<const Name extends string>(spec: MethodSpec<Name>): Method {
  return { ...spec, tool: null };
}

/** Throws a plain error for two methods with the same name. */
export function defineToolkit(className: string, methods: readonly Method[]): Toolkit {
  const byName = new Map(methods.map((method) => [method.name, method]));
  if (byName.size < methods.length) throw new Error(`Cannot define ${className}: a method is there twice.`);
  return { className, methods: byName };
}

export function hasTool(toolkit: Toolkit | null, name: string): boolean {
  return (toolkit?.methods.get(name)?.tool ?? null) !== null;
}

/**
 * Calls a method with keyword arguments. Throws a `PythonError` for arguments that it does not
 * accept.
 */
export function callMethod(
  toolkit: Toolkit,
  method: Method,
  { world, given }: { readonly world: WorldState; readonly given: JsonObject },
): MethodResult {
  const place = `${method.className ?? toolkit.className}.${method.name}()`;
  const names = new Set(
    method.parameters.map((parameter) => (typeof parameter === "string" ? parameter : parameter[0])),
  );
  // Python reports the first keyword that does not fit.
  const misfit = [...given.keys()].find((key) => !names.has(key));
  if (misfit === "self") throw typeError(`${place} got multiple values for argument 'self'`);
  return method.run(world, bindArguments(place, method.parameters, given));
}

/**
 * The text that the caller of a tool reads: a string unchanged, any other result as JSON in which
 * plain numbers and booleans are strings.
 */
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

/** The error for an unknown tool name. */
export function toolNotFound(name: string): PythonError {
  return valueError(`Tool '${name}' not found.`);
}

// Tools that several domains have.

/** Reports a transfer of the customer, and changes nothing. */
export const transferTool = defineTool("generic", {
  name: "transfer_to_human_agents",
  parameters: ["summary"],
  run: () => "Transfer successful",
});

/**
 * Evaluates arithmetic as Python does, errors included; the result is a float with at most two
 * decimals.
 */
export const calculateTool = defineTool("generic", {
  name: "calculate",
  parameters: ["expression"],
  run: (_, { expression }) => {
    const result = calculated(expression);
    if (result === null) throw valueError("Invalid characters in expression");
    return result;
  },
});

// Python operations on values that the tools of several domains share.

/** The id of an existing record; raises `ValueError` with `message` otherwise. */
export function requireId(database: Database, table: string, id: JsonValue, message: string): string {
  const found = findRecord(database, table, id);
  if (found === null) throw valueError(message);
  return found.id;
}

/** A field that its model declares as a float or an integer. */
export function numberOf(record: JsonObject, key: string): number {
  const value = record.get(key);
  if (value instanceof JsonFloat) return value.value;
  if (typeof value === "number" || typeof value === "bigint") return Number(value);
  throw new PythonError("TypeError", `'${key}' is no number`);
}

/** `element in set`, for a set of strings. */
export function isOneOf(element: JsonValue, values: readonly string[]): boolean {
  const key = asKey(element);
  return key !== null && values.some((value) => isOrEquals(value, key));
}

/** `f"{value:.2f}"` with any number of digits. */
export function fixed(value: number, digits: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value < 0 ? "-inf" : "inf";
  if (Math.abs(value) >= 1e21) return `${BigInt(value)}.${"0".repeat(digits)}`;
  return roundFloat(value, digits).toFixed(digits);
}

/** A domain with documents, whose tools and policy depend on files of its folder. */
export type DomainKnowledge = {
  /** Upstream's name for how the agent comes to the documents. */
  readonly retrieval: string;
  /** `read` returns the text of a file of the domain's folder, and refuses one that is missing. */
  readonly load: (read: {
    readonly text: (path: string) => Promise<string>;
    readonly textIfAny: (path: string) => Promise<string | null>;
  }) => Promise<LoadedKnowledge>;
};

export type LoadedKnowledge = {
  readonly agent: Toolkit;
  readonly user: Toolkit;
  /** The policy of a task, made from the assembled policy. */
  readonly policyFor: (policy: string, task: TaskDocuments) => string;
  /** Policy of a run as a whole. */
  readonly policy: (policy: string) => string;
  /** True if the agent has the tool. */
  readonly hasTool: (name: string) => boolean;
};

/** The record of a task, which may list the documents that it requires. */
export type TaskDocuments = { readonly record: JsonObject };

// The definition of a domain of the benchmark: the behaviour of both sides, and the names of its
// data files. The data are not here.

/** The tools of a side, and the file of its database. */
export type DomainSide = {
  readonly toolkit: Toolkit;
  readonly database: DatabaseSpec;
  /**
   * Path within the domain's folder, such as `db.json`; a name that ends in `.toml` is read as
   * TOML.
   */
  readonly file: string;
};

export type Domain = {
  readonly name: string;
  /** Folder of the domain's files; variants with another policy share one. */
  readonly folder: string;
  readonly agent: DomainSide;
  /** The user's side; `null` if the user has no tools. */
  readonly user: DomainSide | null;
  readonly sync: ((world: WorldState) => void) | null;
  /** The parts made from further files of the domain's folder; `null` if the domain is all code. */
  readonly knowledge: DomainKnowledge | null;
  /** Reason why the domain needs a user; `null` if it does not. */
  readonly soloRefusal: string | null;
  /** The policy, assembled from the texts of its files. */
  readonly policy: {
    readonly files: readonly string[];
    readonly soloFiles: readonly string[];
    readonly assemble: (texts: readonly string[]) => string;
  };
};
