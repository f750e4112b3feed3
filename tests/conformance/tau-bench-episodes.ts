// Records of whole episodes, steps after the end included, run through the reference-faithful
// layer.

import { type DomainData, TauEpisode, type TauUser } from "#src/environments/tau-bench/index.ts";
import { JsonFloat, type JsonObject, type JsonValue, parseJson } from "#src/python-semantics/json/index.ts";
import { PythonError } from "#src/python-semantics/index.ts";

export async function playEpisode(
  data: DomainData,
  record: JsonObject,
): Promise<{ readonly expected: JsonValue; readonly actual: JsonValue } | string> {
  const steps = record.get("steps") as JsonObject[];
  const said: JsonValue[] = [];
  let line: string | null = record.get("first_user") as string;
  const episode = new TauEpisode(data, {
    split: record.get("split") as string,
    user: scriptedCustomer(said, () => line),
  });
  const { observation } = await episode.reset(record.get("task_index") as number);
  const actualSteps: JsonValue[] = [];
  for (const step of steps) {
    line = (step.get("user") as string | undefined) ?? null;
    actualSteps.push(await playStep(episode, step));
  }
  const actual: JsonObject = new Map<string, JsonValue>([
    ["first_user", observation],
    ["steps", actualSteps],
    ["said", said],
    ["actions_recorded", episode.actions.length],
    ["data_hash", episode.digest()],
  ]);
  // Steps after the end changed the task's own gold lists in the reference, which shares them with
  // the data; ours never do.
  const isGoldAltered = record.get("gold_altered") === true;
  const kept = [...actual.keys()].filter((key) => record.has(key) && !(isGoldAltered && key === "data_hash"));
  return {
    expected: new Map(kept.map((key) => [key, key === "steps" ? steps.map(expectedStep) : record.get(key)!])),
    actual: new Map(kept.map((key) => [key, actual.get(key)!])),
  };
}

function scriptedCustomer(said: JsonValue[], line: () => string | null): TauUser {
  return {
    open: () => Promise.resolve(line() ?? ""),
    reply: (content) => {
      said.push(content);
      return Promise.resolve(line());
    },
    cost: () => 0,
  };
}

function expectedStep(step: JsonObject): JsonObject {
  return new Map([...step].filter(([key]) => !["name", "arguments", "user", "tags", "hash"].includes(key)));
}

async function playStep(episode: TauEpisode, step: JsonObject): Promise<JsonObject> {
  const kwargs = parseJson(step.get("arguments") as string) as JsonObject;
  try {
    const { observation, reward, done, info } = await episode.step({ name: step.get("name") as string, kwargs });
    const result: JsonObject = new Map<string, JsonValue>([
      ["obs", observation],
      ["reward", new JsonFloat(reward)],
      ["done", done],
      ["source", info.get("source")!],
    ]);
    const rewardInfo = info.get("reward_info");
    if (rewardInfo instanceof Map) result.set("reward_info", rewardInfo.get("info")!);
    return result;
  } catch (error) {
    if (!(error instanceof PythonError)) throw error;
    const result: JsonObject = new Map<string, JsonValue>([
      ["obs", null],
      ["raises", error.pythonType],
    ]);
    if (step.has("message")) result.set("message", error.message);
    return result;
  }
}
