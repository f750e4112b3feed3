// The shape that tools rely on, checked once when tables are read: a broken file is a mistake of configuration, never an
// observation in the middle of an episode. Only what tools read is described; other fields are free.

import { JsonFloat, type JsonValue } from "../../python-semantics/json/index.ts";

const scalars = {
  any: () => true,
  text: (value: JsonValue) => typeof value === "string",
  bool: (value: JsonValue) => typeof value === "boolean",
  number: (value: JsonValue) => typeof value === "number" || typeof value === "bigint" || value instanceof JsonFloat,
};

export type Shape =
  | keyof typeof scalars
  | { readonly listOf: Shape }
  /** A dict with any keys. */
  | { readonly dictOf: Shape }
  /** A dict with at least these keys. */
  | { readonly fields: Readonly<Record<string, Shape>> };

/** What does not fit first, as `path: what it is`; `null` when all fits. */
export function shapeProblem(value: JsonValue | undefined, shape: Shape, path: string): string | null {
  const problem = findProblem(value, shape);
  return problem === null ? null : `${path}${problem}`;
}

/** Paths are only made for what does not fit. */
function findProblem(value: JsonValue | undefined, shape: Shape): string | null {
  if (value === undefined) return " is missing";
  if (typeof shape === "string") return scalars[shape](value) ? null : ` is not a ${shape}`;
  if ("listOf" in shape) {
    if (!Array.isArray(value)) return " is not a list";
    for (const [index, item] of value.entries()) {
      const problem = findProblem(item, shape.listOf);
      if (problem !== null) return `[${index}]${problem}`;
    }
    return null;
  }
  if (!(value instanceof Map)) return " is not an object";
  for (const key of "fields" in shape ? Object.keys(shape.fields) : value.keys()) {
    const problem = findProblem(value.get(key), "fields" in shape ? shape.fields[key]! : shape.dictOf);
    if (problem !== null) return `.${key}${problem}`;
  }
  return null;
}
