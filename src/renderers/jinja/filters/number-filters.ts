// Filters that make or change numbers.

import { JsonFloat } from "../../../python-semantics/json/index.ts";
import { pythonMultiply, pythonNegate, pythonRound } from "../../../python-semantics/index.ts";
import { bindArguments, expectIndex } from "../operations/bind-arguments.ts";
import { divide, power, toFloat } from "../operations/division.ts";
import { numberOf } from "../values/number.ts";
import { parseFloatText, parseIntegerText, truncateFloat } from "../values/number-text.ts";
import { limitError, pythonError, typeError, undefinedError } from "../values/raise.ts";
import { TracedText } from "../values/traced-text.ts";
import { typeNameOf } from "../values/type-name.ts";
import { Undefined, type Value } from "../values/value.ts";
import type { Filter } from "./filter.ts";

/** Never fails on a text: what is no number gives the default. */
const integer: Filter = (value, args) => {
  const [otherwise = 0, base = 10] = bindArguments("int", args, ["default", "base"]);
  if (value instanceof Undefined) throw undefinedError(value);
  if (value instanceof TracedText) {
    const whole = parseIntegerText(value.text, expectIndex(base, "int"));
    if (whole !== null) return whole;
    const float = parseFloatText(value.text)?.value ?? NaN;
    return Number.isFinite(float) ? truncateFloat(float) : otherwise;
  }
  const number = numberOf(value);
  if (number === null || (number instanceof JsonFloat && Number.isNaN(number.value))) return otherwise;
  return number instanceof JsonFloat ? truncateFloat(number.value) : number;
};

const float: Filter = (value, args) => {
  const [otherwise = new JsonFloat(0)] = bindArguments("float", args, ["default"]);
  if (value instanceof Undefined) throw undefinedError(value);
  if (value instanceof TracedText) return parseFloatText(value.text) ?? otherwise;
  const number = numberOf(value);
  return number === null ? otherwise : new JsonFloat(toFloat(number));
};

const absolute: Filter = (value, args) => {
  bindArguments("abs", args, []);
  const number = numberOf(value);
  if (number === null) throw typeError(`a ${typeNameOf(value)} has no absolute value`);
  if (number instanceof JsonFloat) return new JsonFloat(Math.abs(number.value));
  return number < 0 ? pythonNegate(number) : number;
};

/** Ties round to even, as Python's `round` does; an integer stays one. */
const round: Filter = (value, args) => {
  const [precision = 0, method = null] = bindArguments("round", args, ["precision", "method"]);
  const how = method === null ? "common" : method instanceof TracedText ? method.text : "";
  if (how !== "common" && how !== "ceil" && how !== "floor") {
    throw pythonError("FilterArgumentError", "round knows the methods common, ceil and floor");
  }
  if (value instanceof Undefined) throw undefinedRound(value, how);
  const number = numberOf(value);
  if (number === null) throw typeError(`a ${typeNameOf(value)} cannot be rounded`);
  const digits = expectIndex(precision, "round");
  if (digits < 0 || digits > 22) throw limitError(`it rounds to ${digits} digits`);
  if (how === "common") return pythonRound(number, digits);
  const scale = power(10, digits);
  const scaled: Value = pythonMultiply(number, scale);
  const whole = scaled instanceof JsonFloat ? truncateFloat(Math[how](scaled.value)) : scaled;
  return divide(whole, scale);
};

/** `round(undefined)` finds no method; the other two multiply first, which raises. */
function undefinedRound(value: Undefined, method: string): Error {
  return method === "common" ? typeError("an undefined value cannot be rounded") : undefinedError(value);
}

export const numberFilters: readonly (readonly [string, Filter])[] = [
  ["int", integer],
  ["float", float],
  ["abs", absolute],
  ["round", round],
];
