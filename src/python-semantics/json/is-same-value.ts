// Whether two values are the same as JSON: what was computed again against what was written and read back.

import { JsonFloat } from "./value.ts";

/**
 * Compares data deeply: records, maps, lists, typed arrays and plain values. As in JSON, a missing field equals one that is
 * `undefined`, a map equals a record with the same entries, and a float is not an integer. The order of keys counts between
 * two maps: a model reads them in it.
 */
export function isSameValue(left: unknown, right: unknown): boolean {
  if (Object.is(left, right)) return true;
  if (isFloat(left) && isFloat(right)) return Object.is(floatOf(left), floatOf(right));
  if (typeof left !== "object" || typeof right !== "object" || left === null || right === null) return false;
  if (left instanceof JsonFloat || right instanceof JsonFloat) return false;
  if (isList(left) || isList(right)) {
    if (!isList(left) || !isList(right) || left.length !== right.length) return false;
    for (let index = 0; index < left.length; index++) if (!isSameValue(left[index], right[index])) return false;
    return true;
  }
  const [one, other] = [entriesOf(left), entriesOf(right)];
  if (!(left instanceof Map && right instanceof Map)) for (const entries of [one, other]) entries.sort(byKey);
  return (
    one.length === other.length &&
    one.every(([key, value], index) => key === other[index]?.[0] && isSameValue(value, other[index]?.[1]))
  );
}

type List = readonly unknown[] | Uint32Array | Float32Array;

function isList(value: object): value is List {
  return Array.isArray(value) || value instanceof Uint32Array || value instanceof Float32Array;
}

/** Numbers that are no safe integers are written as floats. */
function isFloat(value: unknown): value is number | JsonFloat {
  return value instanceof JsonFloat || (typeof value === "number" && !Number.isSafeInteger(value));
}

function floatOf(value: number | JsonFloat): number {
  return value instanceof JsonFloat ? value.value : value;
}

function byKey([left]: [unknown, unknown], [right]: [unknown, unknown]): number {
  return String(left) < String(right) ? -1 : 1;
}

function entriesOf(value: object): [unknown, unknown][] {
  const entries: [unknown, unknown][] = value instanceof Map ? [...value] : Object.entries(value);
  return entries.filter(([, entry]) => entry !== undefined);
}
