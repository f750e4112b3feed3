// Tools that several domains have.

import {
  evaluateExpression,
  floatRepr,
  PythonError,
  pythonTypeName,
  roundFloat,
} from "../../python-semantics/index.ts";
import { iterate } from "../tables/index.ts";
import { defineTool } from "./toolkit.ts";

/** Says that the customer was handed over, and changes nothing. */
export const transferTool = defineTool("generic", {
  name: "transfer_to_human_agents",
  parameters: ["summary"],
  run: () => "Transfer successful",
});

const alphabet = "0123456789+-*/(). ";

/** Arithmetic as Python evaluates it, errors included, as a float with at most two decimals. */
export const calculateTool = defineTool("generic", {
  name: "calculate",
  parameters: ["expression"],
  run: (_, { expression }) => {
    for (const element of iterate(expression)) {
      if (typeof element !== "string") {
        const type = pythonTypeName(element);
        throw new PythonError("TypeError", `'in <string>' requires string as left operand, not ${type}`);
      }
      if (!alphabet.includes(element)) throw new PythonError("ValueError", "Invalid characters in expression");
    }
    if (typeof expression !== "string") {
      throw new PythonError("TypeError", "eval() arg 1 must be a string, bytes or code object");
    }
    return floatRepr(roundFloat(evaluateExpression(expression), 2));
  },
});
