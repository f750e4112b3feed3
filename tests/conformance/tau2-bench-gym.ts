// Records of the gym of τ²-bench: episodes as text, and text as actions.

import {
  callText,
  type DomainData,
  looksLikeCall,
  parseActionText,
  type SpokenMessage,
  Tau2Gym,
  type Tau2Task,
  type ToolCall,
} from "#src/environments/tau2-bench/index.ts";
import { PythonError } from "#src/python-semantics/index.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "#src/python-semantics/json/index.ts";
import { messageRecord, ScriptedSide } from "./tau2-bench-conversations.ts";
import { asObject, pick, type Played } from "./tau2-bench-worlds.ts";

export function playActionText(record: JsonObject): Played {
  const text = record.get("text") as string;
  if (record.get("op") === "format") {
    const call = record.get("call") as JsonObject;
    const actual = callText({
      name: call.get("name") as string,
      arguments: call.get("arguments") as ToolCall["arguments"],
    });
    return { expected: text, actual };
  }
  const actual = asObject({});
  try {
    actual.set("message", messageRecord(parseActionText(text, record.get("requestor") as SpokenMessage["role"])));
  } catch (error) {
    if (!(error instanceof PythonError)) throw error;
    actual.set("raises", `${error.pythonType}: ${error.message}`);
  }
  actual.set("looks_functional", looksLikeCall(text));
  const expected = pick(record, ["message", "raises", "looks_functional"]);
  if (!expected.has("looks_functional")) actual.delete("looks_functional");
  return { expected, actual };
}

export async function playGym(data: DomainData, task: Tau2Task, record: JsonObject): Promise<Played> {
  const options = record.get("options") as JsonObject;
  const script = record.get("user_script") as JsonObject[] | null;
  const user = new ScriptedSide("user", script ?? []);
  const gym = new Tau2Gym(data, task, {
    ...(script === null ? {} : { user: async (handed) => user.next(handed) }),
    maxSteps: (options.get("max_steps") as number | undefined) ?? 100,
    isSolo: options.get("solo_mode") === true,
    showsAll: options.get("all_messages_as_observation") === true,
    judge: async (_, assertions) => assertions.map((assertion) => ({ assertion, isMet: true, reason: "" })),
  });
  const reset = asObject({ observation: await gym.reset(), tools: [...gym.toolNames] });
  const steps: JsonValue[] = [];
  const recorded = record.get("steps") as JsonObject[];
  for (const step of recorded) {
    const { observation, reward, isTerminated, rewardInfo } = await gym.step(step.get("action") as string);
    const played = asObject({
      observation,
      reward: new JsonFloat(reward),
      terminated: isTerminated,
      truncated: false,
      has_reward: rewardInfo !== null,
    });
    if (isTerminated) played.set("termination_reason", gym.reason).set("messages", gym.messages.length);
    steps.push(played);
  }
  const keys = ["observation", "reward", "terminated", "truncated", "termination_reason", "messages"];
  const expected = recorded.map((step) =>
    pick(step, keys).set("has_reward", (step.get("info_keys") as string[]).includes("reward_info")),
  );
  return {
    expected: asObject({ reset: pick(record.get("reset") as JsonObject, ["observation", "tools"]), steps: expected }),
    actual: asObject({ reset, steps }),
  };
}
