// Types that a parameter's JSON Schema declares, and the readers of arguments that a format writes
// as bare text. Readers return `undefined` for text of another type; other errors of Python
// (infinite integers, nesting) are passed on.

import { JsonFloat, type JsonValue, parseJson } from "../python-semantics/json/index.ts";
import {
  isTruthy,
  narrowFloat,
  pythonFloat,
  pythonInt,
  pythonLower,
  pythonStrip,
  unlessRaised,
} from "../python-semantics/index.ts";

const switches: ReadonlyMap<string, boolean> = new Map([
  ...["true", "1", "yes", "on"].map((word): [string, boolean] => [word, true]),
  ...["false", "0", "no", "off"].map((word): [string, boolean] => [word, false]),
]);

const readInteger = (text: string): number | bigint | undefined => unlessRaised(["ValueError"], () => pythonInt(text));

/** A float, or the integer it equals. */
const readNumber = (text: string): JsonFloat | number | bigint | undefined =>
  unlessRaised(["ValueError"], () => narrowFloat(pythonFloat(text)));

/** Reads names of on and off in any case. */
const readSwitch = (text: string): boolean | undefined => switches.get(pythonStrip(pythonLower(text)));

export const readJson = (text: string): JsonValue | undefined =>
  unlessRaised(["JSONDecodeError"], () => parseJson(text));

/** Names that schemas use for the types above. */
export const kindNames = {
  text: ["string", "str"],
  integer: ["integer", "int"],
  number: ["number", "float"],
  switch: ["boolean", "bool"],
} as const;

type Scalar = JsonFloat | number | bigint | boolean;

/** Readers of scalars, by the names of their types. */
export const scalarReadings: readonly (readonly [
  types: readonly string[],
  read: (text: string) => Scalar | undefined,
])[] = [
  [kindNames.integer, readInteger],
  [kindNames.number, readNumber],
  [kindNames.switch, readSwitch],
];

type Schema = ReadonlyMap<string, JsonValue>;

/** Hints of a schema about its type, the most specific first; `null` if a hint is absent. */
const hints: readonly ((schema: Schema) => string | null)[] = [
  (schema) => writtenType(schema.get("type")),
  (schema) => choicesType([schema.get("anyOf"), schema.get("oneOf")].find((choices) => isTruthy(choices ?? null))),
  (schema) => ifList(schema.get("enum"), (values) => commonType(values.map(valueType))),
  (schema) => ifList(schema.get("allOf"), (parts) => typesOf(parts).find((type) => type !== "string") ?? "string"),
  (schema) => (schema.has("properties") ? "object" : null),
  (schema) => (schema.has("items") ? "array" : null),
];

/** A type name; `null` if the schema does not imply one. Unions give their common type, or "string". */
export function inferSchemaType(schema: JsonValue | undefined): string | null {
  if (!(schema instanceof Map)) return null;
  for (const hint of hints) {
    const type = hint(schema);
    if (type !== null) return type;
  }
  return null;
}

function ifList(value: JsonValue | undefined, read: (items: readonly JsonValue[]) => string): string | null {
  return Array.isArray(value) ? read(value) : null;
}

const commonType = (types: readonly string[]): string => (new Set(types).size === 1 ? types[0]! : "string");

function typesOf(schemas: readonly JsonValue[]): readonly string[] {
  return schemas.flatMap((schema) => inferSchemaType(schema) ?? []).filter((type) => type !== "");
}

function writtenType(type: JsonValue | undefined): string | null {
  if (typeof type === "string") return type;
  if (!Array.isArray(type) || type.length === 0) return null;
  const first = type.find((name) => name !== "null");
  return first === undefined ? "string" : typeof first === "string" ? first : "unknown";
}

function choicesType(choices: JsonValue | undefined): string | null {
  const types = [...new Set(Array.isArray(choices) ? typesOf(choices) : [])];
  if (types.length === 2 && types.includes("null")) return types.find((type) => type !== "null")!;
  return types.includes("string") ? "string" : (types[0] ?? null);
}

/** The JSON Schema type of a value. */
export function valueType(value: JsonValue): string {
  if (value === null) return "null";
  if (value instanceof JsonFloat) return "number";
  if (Array.isArray(value)) return "array";
  if (value instanceof Map) return "object";
  if (typeof value === "boolean") return "boolean";
  return typeof value === "string" ? "string" : "integer";
}
