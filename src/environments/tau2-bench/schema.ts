// The types that the reference's data models declare. Values that are read from files, merged into
// a database, or built by a tool pass through them into the form that is stored and shown: fields
// in the order of the model, missing ones with their defaults, numbers of the declared kind. The
// coercions are pydantic's in lax mode; a refusal is imitated, but not its text.

import { PythonError, pythonRepr } from "../../python-semantics/index.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";

/**
 * Returns the value in its stored form. Throws a `PythonError` of type "ValidationError" for an
 * invalid one.
 */
export type FieldType = (value: JsonValue, place: string) => JsonValue;

/** An optional field. `make` returns a new value each time. */
type Defaulted = { readonly type: FieldType; readonly make: () => JsonValue };

export type Fields = Readonly<Record<string, FieldType | Defaulted>>;

/** The type of a record, as its model declares it. */
export type Model = {
  readonly name: string;
  readonly read: (value: JsonValue, place: string) => JsonObject;
  /** Builds a record from values by field name, for a tool. */
  readonly make: (fields: Readonly<Record<string, JsonValue>>) => JsonObject;
};

function misfit(value: JsonValue, place: string, needed: string): PythonError {
  return new PythonError("ValidationError", `1 validation error for ${place}: ${pythonRepr(value)} is no ${needed}`);
}

export const text: FieldType = (value, place) => {
  if (typeof value === "string") return value;
  throw misfit(value, place, "valid string");
};

const integerText = /^[+-]?\d+(_\d+)*(\.0*)?$/;

export const integer: FieldType = (value, place) => {
  if (typeof value === "number" || typeof value === "bigint") return value;
  if (typeof value === "boolean") return Number(value);
  if (value instanceof JsonFloat && Number.isInteger(value.value)) return integral(BigInt(value.value));
  if (typeof value === "string" && integerText.test(value.trim())) {
    return integral(BigInt(value.trim().replace(/\..*/s, "").replaceAll("_", "").replace(/^\+/, "")));
  }
  throw misfit(value, place, "valid integer");
};

function integral(value: bigint): number | bigint {
  return Number.isSafeInteger(Number(value)) ? Number(value) : value;
}

const floatText = /^[+-]?(\d+(_\d+)*(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i;

export const float: FieldType = (value, place) => {
  if (value instanceof JsonFloat) return value;
  if (typeof value === "number" || typeof value === "bigint" || typeof value === "boolean") {
    return new JsonFloat(Number(value));
  }
  if (typeof value === "string" && floatText.test(value.trim()))
    return new JsonFloat(Number(value.replaceAll("_", "")));
  throw misfit(value, place, "valid number");
};

const truths: ReadonlyMap<string, boolean> = new Map([
  ...["1", "t", "true", "y", "yes", "on"].map((word) => [word, true] as const),
  ...["0", "f", "false", "n", "no", "off"].map((word) => [word, false] as const),
]);

export const boolean: FieldType = (value, place) => {
  if (typeof value === "boolean") return value;
  const number = value instanceof JsonFloat ? value.value : value;
  if (number === 0 || number === 1) return number === 1;
  const truth = typeof value === "string" ? truths.get(value.toLowerCase()) : undefined;
  if (truth !== undefined) return truth;
  throw misfit(value, place, "valid boolean");
};

/** A date such as `2025-02-25`, as shown inside a model. */
export const date: FieldType = (value, place) => {
  if (typeof value === "string" && /^\d{4}-\d\d-\d\d$/.test(value)) return value;
  throw misfit(value, place, "valid date");
};

/** A time such as `2025-01-20 14:30:00`, as shown inside a model; files write it with a `T`. */
export const dateTime: FieldType = (value, place) => {
  if (typeof value === "string" && /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d$/.test(value)) return value.replace("T", " ");
  throw misfit(value, place, "valid datetime");
};

/** An enumeration, given the values of its members. */
export const oneOf =
  (...values: readonly string[]): FieldType =>
  (value, place) => {
    if (typeof value === "string" && values.includes(value)) return value;
    throw misfit(value, place, `member of ${values.join(", ")}`);
  };

export const listOf =
  (item: FieldType): FieldType =>
  (value, place) => {
    if (Array.isArray(value)) return value.map((one, index) => item(one, `${place}.${index}`));
    throw misfit(value, place, "valid list");
  };

export const dictOf =
  (item: FieldType): FieldType =>
  (value, place) => {
    if (!(value instanceof Map)) throw misfit(value, place, "valid dictionary");
    return new Map([...value].map(([key, one]) => [key, item(one, `${place}.${key}`)]));
  };

/** `Optional` without a default: the value may be null, but not missing. */
export const nullable =
  (type: FieldType): FieldType =>
  (value, place) =>
    value === null ? null : type(value, place);

/** The first type that accepts the value. */
export const unionOf =
  (...types: readonly FieldType[]): FieldType =>
  (value, place) => {
    for (const type of types) {
      try {
        return type(value, place);
      } catch (error) {
        if (!(error instanceof PythonError)) throw error;
      }
    }
    throw misfit(value, place, "value of any of its types");
  };

/** A field with a default. */
export function defaulted(type: FieldType, value: JsonValue | (() => JsonValue)): Defaulted {
  return { type, make: typeof value === "function" ? value : () => value };
}

/** `Optional` with null as its default. */
export function optional(type: FieldType): Defaulted {
  return defaulted(nullable(type), null);
}

/**
 * A model with its fields, in the order in which they are shown. Unknown keys are dropped, or
 * refused if `extra` is "forbid".
 */
export function defineModel(
  name: string,
  fields: Fields,
  { extra = "ignore" }: { readonly extra?: "forbid" | "ignore" } = {},
): Model {
  const entries = Object.entries(fields).map(([key, field]) =>
    typeof field === "function" ? { key, type: field, make: null } : { key, type: field.type, make: field.make },
  );
  const known = new Set(Object.keys(fields));
  const read = (value: JsonValue, place: string): JsonObject => {
    if (!(value instanceof Map)) throw misfit(value, place, `valid ${name}`);
    const record: JsonObject = new Map();
    for (const { key, type, make } of entries) {
      const given = value.get(key);
      if (given === undefined && make === null) {
        throw new PythonError("ValidationError", `1 validation error for ${name}\n${key}\n  Field required`);
      }
      record.set(key, given === undefined ? make!() : type(given, `${place}.${key}`));
    }
    if (extra === "forbid") {
      for (const key of value.keys()) {
        if (!known.has(key)) {
          throw new PythonError(
            "ValidationError",
            `1 validation error for ${name}\n${key}\n  Extra inputs are not permitted`,
          );
        }
      }
    }
    return record;
  };
  return { name, read, make: (given) => read(new Map(Object.entries(given)), name) };
}
