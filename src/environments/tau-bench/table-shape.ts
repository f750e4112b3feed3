// The shape that tools rely on, checked once when tables are read: a broken file is a mistake of configuration, never an
// observation in the middle of an episode. Only what tools read is described; other fields are free.

import { JsonFloat, type JsonValue } from "../../python-semantics/json/index.ts";

export type Shape =
  | "any"
  | "text"
  | "number"
  | "bool"
  | { readonly listOf: Shape }
  /** A dict with any keys. */
  | { readonly dictOf: Shape }
  /** A dict with at least these keys. */
  | { readonly fields: Readonly<Record<string, Shape>> };

/** What does not fit first, as `path: what it is`; `null` when all fits. */
export function shapeProblem(value: JsonValue | undefined, shape: Shape, path: string): string | null {
  if (value === undefined) return `${path} is missing`;
  if (shape === "any") return null;
  if (typeof shape === "string") return isScalar(value, shape) ? null : `${path} is not a ${shape}`;
  if ("listOf" in shape) {
    if (!Array.isArray(value)) return `${path} is not a list`;
    return firstProblem(
      value.entries(),
      (index) => `${path}[${index}]`,
      () => shape.listOf,
    );
  }
  if (!(value instanceof Map)) return `${path} is not an object`;
  if ("dictOf" in shape)
    return firstProblem(
      value,
      (key) => `${path}.${key}`,
      () => shape.dictOf,
    );
  const fields = Object.keys(shape.fields).map((name) => [name, value.get(name)] as const);
  return firstProblem(
    fields,
    (name) => `${path}.${name}`,
    (name) => shape.fields[name]!,
  );
}

function firstProblem<Key>(
  entries: Iterable<readonly [Key, JsonValue | undefined]>,
  path: (key: Key) => string,
  shape: (key: Key) => Shape,
): string | null {
  for (const [key, value] of entries) {
    const expected = shape(key);
    // Paths are only made for what may be wrong inside.
    if (typeof expected === "string" && value !== undefined && isScalar(value, expected)) continue;
    const problem = shapeProblem(value, expected, path(key));
    if (problem !== null) return problem;
  }
  return null;
}

function isScalar(value: JsonValue, shape: "any" | "text" | "number" | "bool"): boolean {
  switch (shape) {
    case "any":
      return true;
    case "text":
      return typeof value === "string";
    case "bool":
      return typeof value === "boolean";
    case "number":
      return typeof value === "number" || typeof value === "bigint" || value instanceof JsonFloat;
    default:
      return shape satisfies never;
  }
}
