// The calculator of both benchmarks: arithmetic that the references hand to Python's `eval` once every element is found in an alphabet.

import {
  evaluateExpression,
  floatRepr,
  PythonError,
  pythonTypeName,
  roundFloat,
} from "../../python-semantics/index.ts";
import type { JsonValue } from "../../python-semantics/json/index.ts";
import { iterate } from "./fields.ts";

const alphabet = "0123456789+-*/(). ";

/**
 * A float with at most two decimals, as text; `null` for a character that no arithmetic has. Bounded where Python is not: see
 * `IntegerBudget` of the evaluator for what `9**9**9` becomes. Throws a `PythonError` where Python raises.
 */
export function calculated(expression: JsonValue): string | null {
  for (const element of iterate(expression)) {
    if (typeof element !== "string") {
      const type = pythonTypeName(element);
      throw new PythonError("TypeError", `'in <string>' requires string as left operand, not ${type}`);
    }
    if (!alphabet.includes(element)) return null;
  }
  // A list or dict of such strings gets this far.
  if (typeof expression !== "string") {
    throw new PythonError("TypeError", "eval() arg 1 must be a string, bytes or code object");
  }
  return floatRepr(roundFloat(evaluateExpression(expression), 2));
}
