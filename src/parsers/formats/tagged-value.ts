// Values of Qwen3-Coder's and MiMo's parameter tags by the declared type: the names of many type systems are understood,
// and what does not fit its type stays text.

import { JsonSyntaxError, parseJson } from "../../lib/json/index.ts";
import { PythonError, pythonLower } from "../../lib/python/index.ts";
import { pythonExceptionType } from "../python/exception.ts";
import { evaluateLiteral } from "../python/literal.ts";
import { pythonInt } from "../python/number.ts";
import type { PythonValue } from "../python/value.ts";

export type TaggedValueRules = {
  /** `float(text)`, and to an integer where the format wants one. */
  readonly readNumber: (text: string) => PythonValue;
  /** Whether an exception out of reading a Python literal leaves the text as it is. */
  readonly catchesLiteral: (error: unknown) => boolean;
};

const textTypes = ["string", "str", "text", "varchar", "char", "enum"];
const integerTypes = ["int", "uint", "long", "short", "unsigned"];

export function readTaggedValue(text: string, type: string, rules: TaggedValueRules): PythonValue {
  if (textTypes.includes(type)) return text;
  if (integerTypes.some((prefix) => type.startsWith(prefix))) return valueOr(text, () => pythonInt(text));
  if (type.startsWith("num") || type.startsWith("float")) return valueOr(text, () => rules.readNumber(text));
  if (["boolean", "bool", "binary"].includes(type)) return pythonLower(text) === "true";
  if (["object", "array", "arr"].includes(type) || type.startsWith("dict") || type.startsWith("list")) {
    try {
      return parseJson(text);
    } catch (error) {
      if (!(error instanceof JsonSyntaxError)) throw error;
    }
  }
  try {
    return evaluateLiteral(text);
  } catch (error) {
    if (pythonExceptionType(error) !== null && rules.catchesLiteral(error)) return text;
    throw error;
  }
}

/** The text itself where Python raises a ValueError; other exceptions (infinite integers) escape. */
function valueOr(text: string, read: () => PythonValue): PythonValue {
  try {
    return read();
  } catch (error) {
    if (error instanceof PythonError && error.pythonType === "ValueError") return text;
    throw error;
  }
}
