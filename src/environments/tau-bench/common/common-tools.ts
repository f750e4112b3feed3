// The tools of both domains, and what domains share: finding a record, showing one, payment methods that hold money.

import type { JsonObject, JsonValue } from "../../../python-semantics/json/index.ts";
import { asKey, calculated, field, objectField } from "../../tables/index.ts";
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

/** Arithmetic as Python evaluates it, errors included. */
export const calculate = defineTool({
  name: "calculate",
  parameters: ["expression"],
  run: (_, { expression }) => calculated(expression) ?? "Error: invalid characters in expression",
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
