// The JSON types that a schema allows, and a text as a value of one of them, for formats that convert
// the text of an argument to the first type that it fits: references, unions and keywords that imply
// a type count, as in SGLang.

import {
  integerOf,
  isTruthy,
  PythonError,
  pythonFloat,
  pythonInt,
  pythonLower,
  pythonStrip,
} from "../python-semantics/index.ts";
import { JsonFloat, type JsonObject, type JsonValue, parseJson } from "../python-semantics/json/index.ts";
import { valueType } from "./typed-text.ts";

const jsonTypes = ["string", "number", "integer", "boolean", "array", "object", "null"];
const annotations = new Set("title description default examples deprecated $comment $schema $id nullable".split(" "));
/** Keywords that occur only in schemas of one type. */
const keywords: readonly (readonly [type: string, names: readonly string[]])[] = [
  ["object", "additionalProperties dependentRequired dependentSchemas maxProperties minProperties patternProperties properties propertyNames required".split(" ")],
  ["array", "contains items maxContains maxItems minContains minItems prefixItems uniqueItems".split(" ")],
  ["string", "format maxLength minLength pattern".split(" ")],
  ["number", "exclusiveMaximum exclusiveMinimum maximum minimum multipleOf".split(" ")],
]; // prettier-ignore

/** Maximum nesting of schemas that is followed. */
const maxDepth = 50;

/**
 * The types of a tool's parameter, in the order in which a text is tried; empty if the schema names
 * none. `root`: the tool's parameters.
 */
export function parameterTypes(schema: JsonValue | undefined, root: JsonObject): readonly string[] {
  return declaredTypes(withType(schema ?? null, root, { seen: [], depth: 0 }));
}

type Way = { readonly seen: readonly string[]; readonly depth: number };

/** The schema with its references resolved, and with a type if its other keywords imply one. */
function withType(schema: JsonValue, root: JsonObject, { seen, depth }: Way): JsonValue {
  if (!(schema instanceof Map) || depth > maxDepth) return schema;
  const target = soleTarget(schema, root, seen);
  if (target !== null) {
    const rest = Array.from(schema).filter(([key]) => key !== "$ref" && key !== "allOf");
    return withType(new Map([...target.schema, ...rest]), root, { seen: target.seen, depth: depth + 1 });
  }
  const typed = new Map(schema);
  for (const union of ["anyOf", "oneOf"]) {
    const choices = typed.get(union);
    if (Array.isArray(choices))
      typed.set(
        union,
        choices.map((choice) => withType(choice, root, { seen, depth: depth + 1 })),
      );
  }
  if (["type", "anyOf", "oneOf"].some((key) => typed.has(key))) return typed;
  const types = impliedTypes(typed, root, { seen: [], depth });
  if (types.length > 0 && types.length < jsonTypes.length) typed.set("type", [...types]);
  return typed;
}

/**
 * The only schema denoted by a reference or by a list of one part; `null` if there are further
 * keywords.
 */
function soleTarget(schema: JsonObject, root: JsonObject, seen: readonly string[]) {
  const aliases = ["$ref", "allOf"].filter((key) => schema.has(key));
  if (aliases.length !== 1 || Array.from(schema.keys()).some((key) => key !== aliases[0] && !annotations.has(key))) {
    return null;
  }
  const [ref, parts] = [schema.get("$ref"), schema.get("allOf")];
  const isRef = typeof ref === "string" && !seen.includes(ref);
  const target = isRef ? referred(ref, root) : Array.isArray(parts) && parts.length === 1 ? parts[0] : null;
  return target instanceof Map ? { schema: target, seen: isRef ? [...seen, ref] : seen } : null;
}

function referred(ref: string, root: JsonObject): JsonObject | boolean | null {
  if (!ref.startsWith("#/")) return null;
  let value: JsonValue = root;
  for (const part of ref.slice(2).split("/")) {
    const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (!(value instanceof Map) || !value.has(key)) return null;
    value = value.get(key)!;
  }
  return value instanceof Map || typeof value === "boolean" ? value : null;
}

const inOrder = (types: ReadonlySet<string>): readonly string[] => jsonTypes.filter((type) => types.has(type));
const isSchema = (value: JsonValue): value is JsonObject | boolean =>
  typeof value === "boolean" || value instanceof Map;

function impliedTypes(schema: JsonObject | boolean, root: JsonObject, { seen, depth }: Way): readonly string[] {
  if (schema === false) return [];
  if (schema === true || depth > maxDepth) return jsonTypes;
  const ref = schema.get("$ref");
  if (typeof ref === "string" && !seen.includes(ref)) {
    const target = referred(ref, root);
    if (target !== null) return impliedTypes(target, root, { seen: [...seen, ref], depth: depth + 1 });
  }
  const type = schema.get("type");
  if (typeof type === "string") return jsonTypes.includes(type) ? [type] : jsonTypes;
  if (Array.isArray(type)) return jsonTypes.filter((name) => type.includes(name));
  const typesOf = (options: JsonValue | undefined): readonly (readonly string[])[] | null =>
    Array.isArray(options)
      ? options.filter(isSchema).map((option) => impliedTypes(option, root, { seen, depth: depth + 1 }))
      : null;
  const union = typesOf(schema.get("anyOf")) ?? typesOf(schema.get("oneOf"));
  if (union !== null) return inOrder(new Set(union.flat()));
  const parts = typesOf(schema.get("allOf"))?.filter((types) => types.length < jsonTypes.length) ?? [];
  if (parts.length > 0) return sharedTypes(parts);
  if (schema.has("const")) return [valueType(schema.get("const") ?? null)];
  const values = schema.get("enum");
  if (Array.isArray(values)) return inOrder(new Set(values.map(valueType)));
  return keywords.flatMap(([name, keys]) => (keys.some((key) => schema.has(key)) ? [[name]] : []))[0] ?? jsonTypes;
}

/** The types that all parts allow; an integer is a number. */
function sharedTypes(parts: readonly (readonly string[])[]): readonly string[] {
  const sets = parts.map((types) => new Set(types.includes("number") ? [...types, "integer"] : types));
  const shared = new Set(Array.from(sets[0] ?? []).filter((type) => sets.every((set) => set.has(type))));
  if (shared.has("number")) shared.delete("integer");
  return inOrder(shared);
}

/** The types that a schema names, in its order; unions count, and "nullable" is null. */
export function declaredTypes(schema: JsonValue): readonly string[] {
  if (!(schema instanceof Map)) return [];
  const declared = schema.get("type");
  const types = (Array.isArray(declared) ? declared : [declared]).filter((type) => typeof type === "string");
  for (const union of ["anyOf", "oneOf"]) {
    const choices = schema.get(union);
    if (Array.isArray(choices)) types.push(...choices.flatMap(declaredTypes));
  }
  if (isTruthy(schema.get("nullable") ?? false) && !types.includes("null")) types.push("null");
  return types;
}

/** The text as a value of a type; `undefined` if it is not one. Throws what Python and its JSON reader raise. */
export function readAsType(text: string, type: string): JsonValue | undefined {
  switch (type) {
    case "integer":
      return integerIn(text);
    case "number": {
      const { value } = pythonFloat(text);
      if (!Number.isFinite(value)) return undefined;
      return Number.isInteger(value) && !text.includes(".") ? integerOf(value) : new JsonFloat(value);
    }
    case "boolean": {
      const word = pythonLower(pythonStrip(text));
      return ["true", "1"].includes(word) ? true : ["false", "0"].includes(word) ? false : undefined;
    }
    case "null":
      return ["null", "None"].includes(pythonStrip(text)) ? null : undefined;
    case "object":
    case "array": {
      const value = parseJson(text);
      return (type === "object" ? value instanceof Map : Array.isArray(value)) ? value : undefined;
    }
    default:
      return undefined;
  }
}

/** Whole numbers that are written as floats also count. */
function integerIn(text: string): JsonValue | undefined {
  try {
    return pythonInt(text);
  } catch (error) {
    if (!(error instanceof PythonError)) throw error;
  }
  const { value } = pythonFloat(text);
  return Number.isInteger(value) ? integerOf(value) : undefined;
}
