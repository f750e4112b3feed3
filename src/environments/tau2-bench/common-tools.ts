// Tools that several domains have.

import { PythonError } from "../../python-semantics/index.ts";
import { calculated } from "../tables/index.ts";
import { defineTool } from "./toolkit.ts";

/** Says that the customer was handed over, and changes nothing. */
export const transferTool = defineTool("generic", {
  name: "transfer_to_human_agents",
  parameters: ["summary"],
  run: () => "Transfer successful",
});

/** Arithmetic as Python evaluates it, errors included, as a float with at most two decimals. */
export const calculateTool = defineTool("generic", {
  name: "calculate",
  parameters: ["expression"],
  run: (_, { expression }) => {
    const result = calculated(expression);
    if (result === null) throw new PythonError("ValueError", "Invalid characters in expression");
    return result;
  },
});
