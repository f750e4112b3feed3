import type { JsonObject, JsonValue } from "../../python-semantics/json/index.ts";
import type { TauTask } from "./domain-data.ts";

/** `info` of the reference: of a reset, and of a step before `user_cost` and `reward_info` are known. */
export function stepInfo(task: TauTask, source: string): JsonObject {
  return new Map<string, JsonValue>([
    ["task", task.info],
    ["source", source],
    ["user_cost", null],
    ["reward_info", null],
  ]);
}
