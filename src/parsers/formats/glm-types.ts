// Types that a tool's schema allows for an argument of GLM-4.7 and GLM-5: all types that remain
// possible, until the value or the other arguments decide between alternatives. References into the
// schema are followed.

import type { Tool } from "../../core/index.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { isDict, isList, pythonEquals, PythonError, type PythonValue } from "../../python-semantics/index.ts";
import { declaredParameters } from "../tool-call-scan.ts";

/** Names of types; `null` if the schema does not restrict them. */
export type Types = ReadonlySet<JsonValue> | null;

export type TypeQuery = {
  /** Arguments known so far: alternatives that contradict them do not count. Default: none. */
  readonly known?: ReadonlyMap<string, PythonValue>;
  /** If given, only the members of "const" and "enum" that equal this value count. */
  readonly value?: PythonValue;
};

/** Types of one argument of the first tool of a name. Raises what Python raises for schemas of another shape. */
export function argumentTypes(
  [tool, key]: readonly [tool: string, key: string],
  tools: readonly Tool[],
  query: TypeQuery = {},
): Types {
  const found = tools.find(({ name }) => name === tool);
  const root = declaredParameters(found) ?? null;
  return found === undefined ? null : typesOf(root, { ...query, root, key, seen: [] });
}

/** The only remaining type, where "number" includes "integer"; `null` if there are none or several. */
export function onlyType(types: Types): JsonValue {
  if (types === null) return null;
  if (types.size === 2 && types.has("number") && types.has("integer")) return "number";
  return types.size === 1 ? [...types][0]! : null;
}

/** True if alternatives in the whole schema leave the type of some argument open. */
export function needsContext(root: JsonValue | undefined): boolean {
  const keys = new Set<string>();
  const seen = new Set<JsonValue>();
  let hasUnion = false;
  const visit = (node: JsonValue | undefined): void => {
    if (!(node instanceof Map) || seen.has(node)) return;
    seen.add(node);
    for (const key of propertiesOf(node).keys()) keys.add(key);
    visit(referenced(node, root ?? null));
    for (const keyword of ["anyOf", "oneOf", "allOf"]) {
      const branches = node.get(keyword);
      if (!Array.isArray(branches)) continue;
      hasUnion ||= keyword !== "allOf";
      branches.forEach(visit);
    }
  };
  visit(root);
  if (!hasUnion) return false;
  return [...keys].some((key) => {
    const types = typesOf(root, { root: root ?? null, key, seen: [] });
    return types === null || (types.size > 1 && onlyType(types) === null);
  });
}

/**
 * JSON type of a value; floats without a fraction are integers. Raises for values without a JSON
 * type.
 */
export function jsonType(value: PythonValue): string {
  if (value === null) return "null";
  if (typeof value === "boolean") return "boolean";
  if (typeof value === "string") return "string";
  if (value instanceof JsonFloat) return Number.isInteger(value.value) ? "integer" : "number";
  if (typeof value === "number" || typeof value === "bigint") return "integer";
  if (isList(value)) return "array";
  if (isDict(value)) return "object";
  throw new PythonError("KeyError", "a value that JSON has no type for");
}

type Place = TypeQuery & {
  readonly root: JsonValue;
  /** `null`: the types of the schema itself. */
  readonly key: string | null;
  /** Enclosing schemas: a circular reference does not restrict anything. */
  readonly seen: readonly JsonObject[];
};

function typesOf(schema: JsonValue | undefined, place: Place): Types {
  if (!(schema instanceof Map) || place.seen.includes(schema)) return null;
  const inside = { ...place, seen: [...place.seen, schema] };
  const constraints: Types[] = [typesOf(referenced(schema, place.root), inside)];
  if (place.key === null) constraints.push(declaredTypes(schema), valueTypes(schema, place));
  else {
    const field = propertiesOf(schema).get(place.key);
    // Neither the key nor the other known arguments apply inside it.
    const { root, seen } = inside;
    constraints.push(typesOf(field, { root, seen, key: null, ...("value" in place ? { value: place.value } : {}) }));
  }
  for (const keyword of ["anyOf", "oneOf"]) {
    const branches = schema.get(keyword);
    if (!Array.isArray(branches)) continue;
    const alternatives = branches
      .filter((branch) => place.key === null || isCompatible(branch, place))
      .map((branch) => typesOf(branch, inside));
    if (alternatives.length > 0 && alternatives.every((types) => types !== null)) {
      constraints.push(new Set(alternatives.flatMap((types) => [...types])));
    }
  }
  const parts = schema.get("allOf");
  if (Array.isArray(parts)) for (const part of parts) constraints.push(typesOf(part, inside));
  return intersection(constraints);
}

function intersection(constraints: readonly Types[]): Types {
  const given = constraints.filter((types) => types !== null);
  const [first, ...others] = given;
  return first === undefined ? null : new Set([...first].filter((type) => others.every((types) => types.has(type))));
}

function declaredTypes(schema: JsonObject): Types {
  const written = schema.get("type");
  if (typeof written !== "string" && !Array.isArray(written)) return null;
  const types = new Set<JsonValue>([written].flat());
  for (const type of types) {
    if (type instanceof Map || Array.isArray(type)) throw new PythonError("TypeError", "a type that cannot be hashed");
  }
  return types.has("number") ? types.add("integer") : types;
}

function valueTypes(schema: JsonObject, place: Place): Types {
  const values = schema.has("const") ? [schema.get("const")!] : schema.get("enum");
  if (!Array.isArray(values)) return null;
  const counted = "value" in place ? values.filter((allowed) => isJsonEqual(place.value!, allowed)) : values;
  return new Set(counted.map(jsonType));
}

/** Equality as JSON: a number never equals a boolean. */
function isJsonEqual(left: PythonValue, right: JsonValue): boolean {
  if (jsonType(left) !== jsonType(right)) return false;
  if (left instanceof Map && right instanceof Map) {
    const object: ReadonlyMap<string, PythonValue> = left;
    return (
      object.size === right.size &&
      Array.from(right).every(([key, value]) => object.has(key) && isJsonEqual(object.get(key)!, value))
    );
  }
  if (isList(left) && Array.isArray(right)) {
    return left.length === right.length && left.every((item, index) => isJsonEqual(item, right[index]!));
  }
  return pythonEquals(left, right);
}

/** True if the known arguments fit an alternative. */
function isCompatible(branch: JsonValue, { root, known }: Place): boolean {
  return Array.from(known ?? []).every(([key, value]) => {
    const types = typesOf(branch, { root, key, value, seen: [] });
    return types === null || types.has(jsonType(value));
  });
}

function propertiesOf(schema: JsonObject): ReadonlyMap<string, JsonValue> {
  const properties = schema.has("properties") ? schema.get("properties")! : new Map<string, JsonValue>();
  if (properties instanceof Map) return properties;
  throw new PythonError("AttributeError", "the properties are no object");
}

/** Target of a local reference; `undefined` if the schema has no reference, or it points to nothing. */
function referenced(schema: JsonObject, root: JsonValue): JsonValue | undefined {
  const reference = schema.get("$ref");
  if (typeof reference !== "string" || (reference !== "#" && !reference.startsWith("#/"))) return undefined;
  let target: JsonValue | undefined = root;
  for (const escaped of reference === "#" ? [] : reference.slice(2).split("/")) {
    const part = escaped.replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(target)) target = /^-?\d+$/.test(part) ? target.at(Number(part)) : undefined;
    else target = target instanceof Map ? target.get(part) : undefined;
  }
  return target;
}
