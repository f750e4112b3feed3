// The calculator of both domains. The arithmetic itself is `lib/python/expression`: Python's own, errors included.

import {
  evaluateExpression,
  floatRepr,
  PythonError,
  pythonTypeName,
  roundFloat,
} from "../../../python-semantics/index.ts";
import { iterate } from "../fields.ts";
import { defineTool } from "../tool.ts";

const alphabet = "0123456789+-*/(). ";

/**
 * Arithmetic, handed to Python's `eval` by the reference once every element is found in the alphabet. Bounded where Python
 * is not: see `IntegerBudget` of the evaluator for what `9**9**9` becomes. Throws a `PythonError` where Python raises.
 */
export const calculate = defineTool({
  name: "calculate",
  parameters: ["expression"],
  run: (_, { expression }) => {
    for (const element of iterate(expression)) {
      if (typeof element !== "string") {
        const type = pythonTypeName(element);
        throw new PythonError("TypeError", `'in <string>' requires string as left operand, not ${type}`);
      }
      if (!alphabet.includes(element)) return "Error: invalid characters in expression";
    }
    // A list or dict of such texts gets this far.
    if (typeof expression !== "string") {
      throw new PythonError("TypeError", "eval() arg 1 must be a string, bytes or code object");
    }
    return floatRepr(roundFloat(evaluateExpression(expression), 2));
  },
});
