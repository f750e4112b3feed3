// Python's operations on the arguments and records of the bank's tools, which may be of any type: a
// wrong one raises Python's error, and the policy reads its text.

import {
  codePointLength,
  isOrdered,
  isTruthy,
  PythonError,
  pythonFloat,
  pythonLower,
  pythonRepr,
  pythonStr,
  pythonTitle,
  pythonTypeName,
  roundFloat,
  typeError,
} from "../../../python-semantics/index.ts";
import { dumpJson, JsonFloat, type JsonObject, type JsonValue } from "../../../python-semantics/json/index.ts";
import { attributeError } from "../../tables/index.ts";

/** `str(value)`, as in `f"{value}"`. */
export const show = (value: JsonValue): string => pythonStr(value);

/** `repr` of a list of strings, as in a message that lists the accepted values. */
export const showList = (values: readonly string[]): string => pythonRepr([...values]);

/** A record with its fields in the given order. */
export const recordOf = (fields: Readonly<Record<string, JsonValue>>): JsonObject => new Map(Object.entries(fields));

/** `json.dumps(fields, indent=2)`. */
export const showJson = (value: JsonValue): string => dumpJson(value, { ensureAscii: true, indent: 2 });

/** `record.get(key, fallback)`. */
export function getField(record: JsonObject, key: string, fallback: JsonValue = null): JsonValue {
  const value = record.get(key);
  return value === undefined ? fallback : value;
}

/** `value in [..]` for a list or tuple of strings, which no value of another type equals. */
export const isIn = (value: JsonValue, values: readonly string[]): boolean =>
  typeof value === "string" && values.includes(value);

/** True if one of the values is falsy: missing in the sense of the tools. */
export const isAnyMissing = (...values: readonly JsonValue[]): boolean => values.some((value) => !isTruthy(value));

/** `value <= 0`; raises for a value that is not a number. */
export const isAtMostZero = (value: JsonValue): boolean => isOrdered("<=", value, 0);

/** `float(value)`. */
export function toNumber(value: JsonValue): number {
  if (value instanceof JsonFloat) return value.value;
  if (typeof value === "boolean") return Number(value);
  if (typeof value === "number" || typeof value === "bigint") {
    const number = Number(value);
    if (Number.isFinite(number)) return number;
    throw new PythonError("OverflowError", "int too large to convert to float");
  }
  if (typeof value === "string") return pythonFloat(value).value;
  throw typeError(`float() argument must be a string or a real number, not '${pythonTypeName(value)}'`);
}

/** The result of `float(value)`; `null` where it raises a TypeError or a ValueError. */
export function toNumberIfAny(value: JsonValue): number | null {
  try {
    return toNumber(value);
  } catch (error) {
    if (error instanceof PythonError && ["TypeError", "ValueError"].includes(error.pythonType)) return null;
    throw error;
  }
}

/** `f"{value:.<digits>f}"` of a number. */
export function fixedNumber(value: number, digits = 2): string {
  if (Number.isNaN(value)) return "nan";
  const sign = value < 0 || Object.is(value, -0) ? "-" : "";
  const magnitude = Math.abs(value);
  if (magnitude === Infinity) return `${sign}inf`;
  if (magnitude >= 1e21) return `${sign}${BigInt(magnitude)}${digits === 0 ? "" : `.${"0".repeat(digits)}`}`;
  return `${sign}${roundFloat(magnitude, digits).toFixed(digits)}`;
}

/** `f"{value:.2f}"` of any value. */
export function fixedText(value: JsonValue): string {
  if (typeof value === "string") {
    throw new PythonError("ValueError", "Unknown format code 'f' for object of type 'str'");
  }
  if (value === null || Array.isArray(value) || value instanceof Map) {
    throw typeError(`unsupported format string passed to ${pythonTypeName(value)}.__format__`);
  }
  return fixedNumber(toNumber(value));
}

/** `value.replace(" ", …)` and the like: the string, or the error of the missing method. */
export function expectString(value: JsonValue, method: string): string {
  if (typeof value === "string") return value;
  throw attributeError(value, method);
}

/** `value.lower()`. */
export const lowered = (value: JsonValue): string => pythonLower(expectString(value, "lower"));

/** `value.upper()`. */
export const upper = (value: JsonValue): string => expectString(value, "upper").toUpperCase();

/** `value.replace("_", " ").title()`. */
export const titled = (value: JsonValue): string => pythonTitle(expectString(value, "replace").replaceAll("_", " "));

const digits = /^[\p{Nd}\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u2080-\u2089]+$/u;

/** `value.isdigit() and len(value) == count`. */
export function isDigits(value: JsonValue, count: number): boolean {
  const text = expectString(value, "isdigit");
  return digits.test(text) && codePointLength(text) === count;
}

/** An amount of money in a record: a number, or text such as "$1,200.50"; 0 for other types. */
export function parseBalance(value: JsonValue): number {
  if (typeof value === "string") return pythonFloat(value.replaceAll("$", "").replaceAll(",", "")).value;
  return value === null || Array.isArray(value) || value instanceof Map ? 0 : toNumber(value);
}

/** The balance of a bank account. */
export const balanceOf = (account: JsonObject): number =>
  parseBalance(getField(account, "current_holdings", getField(account, "balance", 0)));

/** An amount of money in a card account; 0 for text that is not an amount. */
export function parseAmount(value: JsonValue): number {
  return toNumberIfAny(show(value).replaceAll("$", "").replaceAll(",", "")) ?? 0;
}

/** Sorts records by a date as text, the latest first, and equal ones in their order. */
export function latestFirst(records: readonly JsonObject[], field: string): JsonObject[] {
  const dateOf = (record: JsonObject): JsonValue => {
    const date = getField(record, field);
    return isTruthy(date) ? date : "";
  };
  return records.toSorted((left, right) => {
    const [one, other] = [dateOf(left), dateOf(right)];
    return isOrdered("<", one, other) ? 1 : isOrdered("<", other, one) ? -1 : 0;
  });
}
