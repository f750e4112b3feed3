// The tools of both domains besides the calculator, and what tools share: finding a record, showing one.

import type { JsonObject, JsonValue } from "../../../python-semantics/json/index.ts";
import { asKey } from "../fields.ts";
import { defineTool, type TauTool } from "../tool.ts";
import type { World } from "../world.ts";

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

export const getUserDetails = showTool("get_user_details", "user_id", "users", "Error: user not found");

/** Room for the model's thoughts; changes and says nothing. */
export const think = defineTool({ name: "think", parameters: ["thought"], run: () => "" });

/** Ends the episode, even when the call itself fails; that is decided by the domain, not here. */
export const transferToHumanAgents = defineTool({
  name: "transfer_to_human_agents",
  parameters: ["summary"],
  run: () => "Transfer successful",
});
