// Upstream's result format, written: a list of {task_id, reward, info, traj, trial}, as its runner writes it with Python's
// json.dump(indent=2). Episodes of our loop hold the same conversation in another shape; what upstream records of its own
// objects (`info`) is rebuilt from what the environment reported.

import type { Episode } from "../../core/index.ts";
import { type Conversation, conversationOf } from "../../graders/index.ts";
import { dumpJson, JsonFloat, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";

/** What upstream's customer writes to hang up. */
export const stopMark = "###STOP###";

/** One entry. An episode without a reward is written as upstream writes a crash: reward 0.0, the fault in `info`. */
export function tauResult(episode: Episode, guidelines: string): JsonObject {
  const { failure, reward, stopReason } = episode;
  const isLost = reward === null;
  const error = failure?.message ?? `The episode ended with "${stopReason}" and was not graded.`;
  return new Map<string, JsonValue>([
    ["task_id", episode.task.index],
    ["reward", new JsonFloat(reward ?? 0)],
    ["info", isLost ? new Map([["error", error], ["traceback", failure?.cause ?? ""]]) : infoOf(episode)], // prettier-ignore
    ["traj", isLost ? [] : trajectoryOf(conversationOf(episode), guidelines)],
    ["trial", episode.sampleIndex],
  ]);
}

/** The whole file. */
export function tauResultsText(results: readonly JsonObject[]): string {
  return dumpJson([...results], { indent: 2, ensureAscii: true });
}

/** Keys in upstream's order. The cost is that of the whole episode; upstream's own is that of the last line. */
function infoOf({ info, events }: Episode): JsonObject {
  const last = events.findLast(({ type }) => type === "user-line" || type === "tool-result");
  const lines = events.flatMap((event) => (event.type === "user-line" ? [event.line.usage.cost] : []));
  const cost = lines.reduce<number | null>((sum, one) => (sum === null || one === null ? null : sum + one), 0);
  const isDone = info.get("reward_info") instanceof Map;
  const own: JsonObject = new Map<string, JsonValue>([
    ["task", info.get("task") ?? null],
    ["source", last?.type === "user-line" ? "user" : (info.get("source") ?? null)],
    ["user_cost", isDone && cost !== null ? new JsonFloat(cost) : null],
    ["reward_info", info.get("reward_info") ?? null],
  ]);
  return new Map([...own, ...[...info].filter(([key]) => !own.has(key))]);
}

function trajectoryOf(conversation: Conversation, guidelines: string): JsonValue[] {
  const messages: JsonObject[] = [message({ role: "system", content: guidelines })];
  let calls = 0;
  for (const step of conversation) {
    if (step.type === "user") {
      messages.push(message({ role: "user", content: step.hangsUp ? withStopMark(step.words) : step.words }));
    } else if (step.type === "agent") {
      messages.push(message({ content: step.words, role: "assistant" }));
    } else {
      const id = `call_${calls++}`;
      const fn = message({ arguments: dumpJson(step.arguments), name: step.name });
      const call = new Map<string, JsonValue>([["function", fn], ["id", id], ["type", "function"]]); // prettier-ignore
      messages.push(
        new Map<string, JsonValue>([["content", null], ["role", "assistant"], ["tool_calls", [call]]]), // prettier-ignore
        message({ role: "tool", tool_call_id: id, name: step.name, content: step.result }),
      );
    }
  }
  return messages;
}

function withStopMark(words: string): string {
  if (words.includes(stopMark)) return words;
  return words === "" ? stopMark : `${words} ${stopMark}`;
}

function message(fields: Readonly<Record<string, string>>): JsonObject {
  return new Map(Object.entries(fields));
}
