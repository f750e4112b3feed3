// The tools of both domains, and what domains share: finding a record, showing one, payment methods that hold money. The
// calculator's arithmetic itself is `evaluateExpression`: Python's own, errors included.

import {
  evaluateExpression,
  floatRepr,
  PythonError,
  pythonTypeName,
  roundFloat,
} from "../../../python-semantics/index.ts";
import type { JsonObject, JsonValue } from "../../../python-semantics/json/index.ts";
import { asKey, field, iterate, objectField } from "../../tables/index.ts";
import { shapeProblem } from "../table-shape.ts";
import { defineTool, type TauTool } from "../tool.ts";
import type { SharedBase, World } from "../world.ts";

export type FoundRecord = {
  readonly id: string;
  /** For reading only; `world.edit` gives the one to change. */
  readonly record: JsonObject;
};

/** The record of an id, which may be of any type; `null` when there is none. */
export function findRecord(world: World, table: string, id: JsonValue): FoundRecord | null {
  const key = asKey(id);
  const record = key === null ? undefined : world.read(table, key);
  return key === null || record === undefined ? null : { id: key, record };
}

/** The tool that answers with a record as JSON. */
export function showTool(name: string, parameter: string, table: string, missing: string): TauTool {
  return defineTool({
    name,
    parameters: [parameter],
    run: (world, args) => {
      const found = findRecord(world, table, args[parameter]!);
      return found === null ? missing : world.json(table, found.id);
    },
  });
}

const getUserDetails = showTool("get_user_details", "user_id", "users", "Error: user not found");

/** For the model's thoughts; changes and says nothing. */
const think = defineTool({ name: "think", parameters: ["thought"], run: () => "" });

/** Ends the episode, even when the call itself fails; that is decided by the domain, not here. */
const transferToHumanAgents = defineTool({
  name: "transfer_to_human_agents",
  parameters: ["summary"],
  run: () => "Transfer successful",
});

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
    // A list or dict of such strings gets this far.
    if (typeof expression !== "string") {
      throw new PythonError("TypeError", "eval() arg 1 must be a string, bytes or code object");
    }
    return floatRepr(roundFloat(evaluateExpression(expression), 2));
  },
});

export const commonTools: readonly TauTool[] = [calculate, getUserDetails, think, transferToHumanAgents];

/** The first payment method of the given kind that lacks the amount it holds, as a sentence part; `null` when there is none. */
export function findBrokenMethod(
  base: SharedBase,
  holdsMoney: (source: JsonValue) => boolean,
  amount: string,
): string | null {
  for (const [id, record] of base.table("users")) {
    for (const [methodId, method] of objectField(record, "payment_methods")) {
      if (!(method instanceof Map) || !holdsMoney(field(method, "source"))) continue;
      const problem = shapeProblem(
        method,
        { fields: { [amount]: "number" } },
        `users.${id}.payment_methods.${methodId}`,
      );
      if (problem !== null) return problem;
    }
  }
  return null;
}
