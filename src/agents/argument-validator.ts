// Validates a call's arguments against the JSON Schema of its tool. The only file that knows the
// schema library. A schema that it cannot compile (a broken one, a reference to the network) counts
// as no schema, and `schemaWarnings` reports it: an environment must stay usable even with broken
// tool definitions.

import { createRequire } from "node:module";

import type * as ajv from "ajv";
import type * as ajv2020 from "ajv/dist/2020.js";

import { type Tool, toolParameters } from "../core/index.ts";
import { linearPattern, type TestBudget, testBudget } from "../lib/linear-pattern.ts";
import { UnreadPatternError } from "../lib/parse-pattern.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../python-semantics/json/index.ts";

export type ArgumentViolation = {
  /** Place in the arguments, such as `items[0].id`; empty for the arguments as a whole. */
  readonly place: string;
  /** One sentence without its full stop, naming the place. */
  readonly detail: string;
};

type Compiled = { readonly validate: ajv.ValidateFunction | null; readonly warning: string | null };

const options = {
  strict: false,
  // Formats are only annotations for tools; checking them is not worth another dependency.
  validateFormats: false,
  // Keys such as "constructor" come from the model, not from JavaScript.
  ownProperties: true,
  addUsedSchema: false,
  logger: false,
} as const;

/** Patterns of the schema being compiled that cannot be checked, with the reason. */
let uncheckedPatterns = new Map<string, string>();

/**
 * Limit of the patterns of one validation together, because a schema may test each of many short
 * texts; `null` before the first.
 */
let budget: TestBudget | null = null;

/**
 * Replaces `RegExp` in the library. A schema may come from a remote server and the text from a
 * model, so every pattern must take linear time: a pattern that cannot be decided in linear time
 * counts as matched, and so does a text that would exceed the budget of the validation.
 */
function checkedPattern(
  source: string,
  flags: string,
): { readonly test: (text: string) => boolean; readonly toString: () => string } {
  const toString = (): string => `/${source}/${flags}`;
  try {
    const pattern = linearPattern(source, flags === "u" ? "u" : "");
    return { test: (text) => pattern.test(text, (budget ??= testBudget())) ?? true, toString };
  } catch (error) {
    if (!(error instanceof UnreadPatternError)) throw error;
    uncheckedPatterns.set(source, error.message);
    return { test: () => true, toString };
  }
}

/** Tools are shared by all episodes of an environment, so each schema is compiled once. */
const compiledTools = new WeakMap<Tool, Compiled>();

/**
 * The first violation of the tool's schema; `null` when there is none, or no usable schema. Never
 * throws.
 */
export function findViolation(tool: Tool, toolArguments: JsonObject): ArgumentViolation | null {
  const { validate } = compiledOf(tool);
  if (validate === null) return null;
  budget = null;
  try {
    if (validate(ordinaryValue(toolArguments))) return null;
    const error = validate.errors?.[0];
    return error === undefined ? null : describeViolation(error);
  } catch {
    // A schema can recurse endlessly on some values; such values count as valid.
    return null;
  }
}

/**
 * Warnings, one sentence each, for tools whose arguments are not checked, or not against all
 * patterns of their schema.
 */
export function schemaWarnings(tools: readonly Tool[]): string[] {
  return tools.flatMap((tool) => compiledOf(tool).warning ?? []);
}

/** Warnings about tools whose schema cannot be used at all. */
export function unusableSchemas(tools: readonly Tool[]): string[] {
  return schemaWarnings(tools.filter((tool) => compiledOf(tool).validate === null));
}

function compiledOf(tool: Tool): Compiled {
  const known = compiledTools.get(tool);
  if (known !== undefined) return known;
  const compiled = compile(tool);
  compiledTools.set(tool, compiled);
  return compiled;
}

function compile(tool: Tool): Compiled {
  const parameters = toolParameters(tool);
  if (parameters === null) return { validate: null, warning: null };
  const warn = (problem: string): Compiled => ({
    validate: null,
    warning: `Arguments of tool "${tool.name}" are not checked: its parameters are not a usable JSON Schema (${problem}).`,
  });
  if (!(parameters instanceof Map)) return warn("they are not an object");
  const schema = ordinaryValue(parameters) as ajv.AnySchemaObject;
  // The validator of such a schema would return a promise.
  if (parameters.has("$async")) return warn("it is asynchronous");
  const dialect = parameters.get("$schema");
  const isRecent = typeof dialect === "string" && /2019-09|2020-12/.test(dialect);
  let problem: unknown;
  // Patterns written for other languages are often not valid with Unicode semantics.
  for (const unicodeRegExp of [true, false]) {
    uncheckedPatterns = new Map();
    try {
      const library = libraryFor(isRecent, unicodeRegExp);
      const validate = library.compile(schema);
      // Removed, because the library would keep every schema, including those of thousands of
      // short-lived environments.
      library.removeSchema(schema);
      return { validate, warning: patternWarning(tool) };
    } catch (error) {
      problem ??= error;
    }
  }
  return warn(problem instanceof Error ? problem.message : String(problem));
}

/** Warning about patterns of the tool that was just compiled; `null` if all are checked. */
function patternWarning(tool: Tool): string | null {
  if (uncheckedPatterns.size === 0) return null;
  const named = Array.from(uncheckedPatterns, ([source, reason]) => `${JSON.stringify(source)} (${reason})`);
  const are = named.length === 1 ? "A pattern" : "Patterns";
  return `${are} of the arguments of tool "${tool.name}" cannot be checked in bounded time and ${named.length === 1 ? "counts" : "count"} as matched: ${named.join(", ")}.`;
}

/** Loaded with the first schema, because many importers of this package check none. */
const require = createRequire(import.meta.url);

const libraries = new Map<string, ajv.Ajv>();

/** Created on first use: an instance costs milliseconds. */
function libraryFor(isRecent: boolean, unicodeRegExp: boolean): ajv.Ajv {
  const key = `${isRecent}/${unicodeRegExp}`;
  let library = libraries.get(key);
  if (library === undefined) {
    const { Ajv } = require("ajv") as typeof ajv;
    const { Ajv2020 } = require("ajv/dist/2020.js") as typeof ajv2020;
    library = new (isRecent ? Ajv2020 : Ajv)({
      ...options,
      unicodeRegExp,
      code: { regExp: Object.assign(checkedPattern, { code: "checkedPattern" }) },
    });
    libraries.set(key, library);
  }
  return library;
}

/**
 * Converts to plain values with ordinary prototypes, which the library's deep comparison needs;
 * `__proto__` stays an own key.
 */
function ordinaryValue(value: JsonValue): unknown {
  if (value instanceof JsonFloat) return value.value;
  if (typeof value === "bigint") return Number(value);
  if (Array.isArray(value)) return value.map(ordinaryValue);
  if (!(value instanceof Map)) return value;
  const object: Record<string, unknown> = {};
  for (const [key, element] of value) {
    const descriptor = { value: ordinaryValue(element), enumerable: true, writable: true, configurable: true };
    Object.defineProperty(object, key, descriptor);
  }
  return object;
}

function describeViolation(error: ajv.ErrorObject): ArgumentViolation {
  const place = placeOf(error.instancePath);
  const subject = place === "" ? "the arguments" : `"${place}"`;
  const named = (key: unknown): ArgumentViolation["place"] => joinPlace(place, String(key));
  const params = error.params as Record<string, unknown>;
  switch (error.keyword) {
    case "required":
      return { place: named(params["missingProperty"]), detail: `"${named(params["missingProperty"])}" is missing` };
    case "additionalProperties":
    case "unevaluatedProperties": {
      const extra = named(params["additionalProperty"] ?? params["unevaluatedProperty"]);
      return { place: extra, detail: `"${extra}" is not a parameter of this tool` };
    }
    case "type":
      return { place, detail: `${subject} must be of type ${[params["type"]].flat().join(" or ")}` };
    case "enum":
      return { place, detail: `${subject} must be one of ${listValues(params["allowedValues"])}` };
    case "const":
      return { place, detail: `${subject} must be ${JSON.stringify(params["allowedValue"])}` };
    default:
      return { place, detail: `${subject} ${error.message ?? "is not allowed"}` };
  }
}

/** Maximum number of allowed values named in a message. */
const shownValues = 20;

function listValues(values: unknown): string {
  const all = Array.isArray(values) ? values : [values];
  const shown = all.slice(0, shownValues).map((value) => JSON.stringify(value));
  return shown.join(", ") + (all.length > shownValues ? ", ..." : "");
}

/** Converts `/items/0/id` to `items[0].id`. */
function placeOf(pointer: string): string {
  return pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce(joinPlace, "");
}

function joinPlace(place: string, part: string): string {
  if (/^\d+$/.test(part) && place !== "") return `${place}[${part}]`;
  return place === "" ? part : `${place}.${part}`;
}
