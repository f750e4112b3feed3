// Runs of a real model that upstream published, run again. The current results of the reference are
// compared; the results recorded then (with other data) are also in the records but are not
// compared.

import { type DomainData, TauEpisode, type TauStep } from "#src/environments/tau-bench/index.ts";
import { JsonFloat, type JsonObject, type JsonValue, parseJson } from "#src/python-semantics/json/index.ts";

const stepFields = ["obs", "reward", "done"];
const runFields = ["done", "reward", "reward_info", "data_hash", "data_hash_after"];

export async function playRecordedRun(
  data: DomainData,
  record: JsonObject,
): Promise<{ readonly expected: JsonValue; readonly actual: JsonValue }> {
  const steps = record.get("steps") as JsonObject[];
  let line = record.get("first_user") as string;
  const episode = new TauEpisode(data, {
    split: "test",
    user: { open: () => Promise.resolve(line), reply: () => Promise.resolve(line), cost: () => 0 },
  });
  await episode.reset(record.get("task_id") as number);
  const played: JsonValue[] = [];
  let before = episode.digest();
  let last: TauStep | null = null;
  for (const [index, step] of steps.entries()) {
    // Grading replaces the state with the gold data, so the digest is taken before the last step.
    if (index === steps.length - 1) before = episode.digest();
    line = (step.get("user") as string | undefined) ?? "";
    const kwargs = parseJson(step.get("arguments") as string) as JsonObject;
    last = await episode.step({ name: step.get("name") as string, kwargs });
    played.push(
      new Map<string, JsonValue>([
        ["obs", last.observation],
        ["reward", new JsonFloat(last.reward)],
        ["done", last.done],
      ]),
    );
  }
  const after = episode.digest();
  const rewardInfo = last?.info.get("reward_info");
  return {
    expected: pick(record, runFields).set(
      "steps",
      steps.map((step) => pick(step, stepFields)),
    ),
    actual: new Map<string, JsonValue>([
      ["done", last?.done ?? false],
      ["reward", new JsonFloat(last?.reward ?? 0)],
      ["reward_info", rewardInfo instanceof Map ? rewardInfo.get("info")! : null],
      ["data_hash", last?.done === true ? before : after],
      ["data_hash_after", after],
      ["steps", played],
    ]),
  };
}

function pick(record: JsonObject, keys: readonly string[]): JsonObject {
  return new Map([...record].filter(([key]) => keys.includes(key)));
}
