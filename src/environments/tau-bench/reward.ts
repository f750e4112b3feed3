// The reward of the reference: 1 when the data is what the gold actions make of it and every output was said, else 0. The
// data is compared by the records that differ from fresh data, which is the same as comparing whole hashes.

import { JsonFloat, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { PythonError, pythonLower } from "../../python-semantics/index.ts";
import { type TauAction, respondName } from "./action.ts";
import { actionRecord, type TauTask } from "./domain-data.ts";
import { attributeError } from "./fields.ts";
import type { Gold } from "./gold.ts";
import type { World } from "./world.ts";

export type TauReward = {
  readonly reward: 0 | 1;
  /** Records that are not as they should be, as `table id`. */
  readonly wrongRecords: readonly string[];
  /** Whether each output was said; duplicates collapse. */
  readonly outputs: ReadonlyMap<string, boolean>;
  /** `reward_info` of the reference. */
  readonly info: JsonObject;
};

/**
 * Throws a `PythonError` where the reference lets one escape: words to the customer that are no text, but only when the
 * task has outputs and an output was not found before them.
 */
export function rewardOf(
  episode: { readonly world: World; readonly actions: readonly TauAction[] },
  task: TauTask,
  gold: Gold,
): TauReward {
  const wrongRecords = findWrongRecords(episode.world, gold);
  const isRight = wrongRecords.length === 0;
  const outputs = new Map(task.outputs.map((output) => [output, wasSaid(episode.actions, output)]));
  const isAllSaid = [...outputs.values()].every((said) => said);
  const reward = isRight && isAllSaid ? 1 : 0;
  // Outputs hide the result of the data, even when that is why the reward is 0.
  const details: [string, JsonValue][] =
    task.outputs.length > 0
      ? [
          ["r_outputs", flag(isAllSaid)],
          ["outputs", new Map(outputs)],
        ]
      : [
          ["r_actions", flag(isRight)],
          ["gt_data_hash", gold.digest()],
        ];
  const actions = task.actions.filter(({ name }) => name !== respondName).map(actionRecord);
  const info: JsonObject = new Map<string, JsonValue>([
    ["reward", flag(reward === 1)],
    ["info", new Map(details)],
    ["actions", actions],
  ]);
  return { reward, wrongRecords, outputs, info };
}

function findWrongRecords(world: World, gold: Gold): string[] {
  const actual = world.differences();
  const wrong: string[] = [];
  for (const table of new Set([...gold.differences.keys(), ...actual.keys()])) {
    const wanted = gold.differences.get(table) ?? new Map<string, string | null>();
    const found = actual.get(table) ?? new Map<string, string | null>();
    for (const id of new Set([...wanted.keys(), ...found.keys()])) {
      if (wanted.get(id) !== found.get(id)) wrong.push(`${table} ${id}`);
    }
  }
  return wrong;
}

/** In one single line of the agent, without case; commas are taken out of the line, not out of the output. */
function wasSaid(actions: readonly TauAction[], output: string): boolean {
  const wanted = pythonLower(output);
  return actions.some(({ name, kwargs }) => {
    if (name !== respondName) return false;
    const content = kwargs.get("content");
    if (content === undefined) throw new PythonError("KeyError", "'content'");
    if (typeof content !== "string") throw attributeError(content, "lower");
    return pythonLower(content).replaceAll(",", "").includes(wanted);
  });
}

function flag(value: boolean): JsonFloat {
  return new JsonFloat(value ? 1 : 0);
}
