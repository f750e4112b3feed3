// A toolkit: the methods of one side, tools among them. A call binds its arguments as Python binds keyword arguments; nothing is
// checked against a tool's JSON schema, because the reference does not either. What a method gives back becomes text as the
// reference makes it.

import { PythonError, pythonStr, typeError } from "../../python-semantics/index.ts";
import {
  cloneJson,
  dumpJson,
  type JsonFloat,
  type JsonObject,
  type JsonValue,
} from "../../python-semantics/json/index.ts";
import { calculated } from "../tables/index.ts";
import type { Database } from "./database.ts";

/** What methods work on: the databases of both sides. */
export interface WorldState {
  readonly agent: Database;
  /** The agent's, where the user has no tools. */
  readonly user: Database;
  /** An id for a new record, which the reference draws at random. */
  createId(): string;
}

export type ToolKind = "read" | "write" | "think" | "generic";

/** A parameter without or with a default, in the order of the reference's signature. */
export type Parameter = string | readonly [name: string, value: JsonValue];

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
  const bound: Record<string, JsonValue> = {};
  const names = method.parameters.map((parameter) => (typeof parameter === "string" ? parameter : parameter[0]));
  for (const [key, value] of given) {
    if (!names.includes(key)) throw typeError(`${place} got an unexpected keyword argument '${key}'`);
    bound[key] = cloneJson(value);
  }
  const missing: string[] = [];
  for (const parameter of method.parameters) {
    const name = typeof parameter === "string" ? parameter : parameter[0];
    if (Object.hasOwn(bound, name)) continue;
    if (typeof parameter === "string") missing.push(`'${name}'`);
    else bound[name] = cloneJson(parameter[1]);
  }
  if (missing.length > 0) {
    const noun = missing.length === 1 ? "argument" : "arguments";
    throw typeError(`${place} missing ${missing.length} required positional ${noun}: ${enumerate(missing)}`);
  }
  return method.run(world, bound);
}

/** `a`, `a and b`, `a, b, and c`. */
function enumerate(names: readonly string[]): string {
  const last = names.at(-1)!;
  if (names.length === 1) return last;
  return `${names.slice(0, -1).join(", ")}${names.length > 2 ? "," : ""} and ${last}`;
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
  return new PythonError("ValueError", `Tool '${name}' not found.`);
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
    if (result === null) throw new PythonError("ValueError", "Invalid characters in expression");
    return result;
  },
});
