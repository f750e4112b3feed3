// Records of tasks: the gold actions run as an agent would, once without messages and once with the
// outputs said.

import { createHash } from "node:crypto";

import { type DomainData, TauEpisode, type TauStep } from "#src/environments/tau-bench/index.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "#src/python-semantics/json/index.ts";

export function expectedTask(record: JsonObject): JsonValue {
  return new Map([...record].filter(([key]) => key !== "split" && key !== "index" && key !== "tags"));
}

export async function playTask(data: DomainData, record: JsonObject): Promise<JsonValue> {
  const place = { split: record.get("split") as string, index: record.get("index") as number };
  const silent = await playGold(data, place, []);
  const outputs = data.tasks.get(place.split)?.[place.index]?.outputs ?? [];
  const actual: JsonObject = new Map<string, JsonValue>([
    ["gt_data_hash", silent.dataHash],
    ["ended_by_gold_action", silent.endedBy],
    ["gold_errors", silent.observations.flatMap((text, index) => (text.startsWith("Error: ") ? [index] : []))],
    ...rewardEntries(silent.last, ""),
  ]);
  if (record.has("obs")) actual.set("obs", silent.observations);
  if (record.has("obs_sha256")) actual.set("obs_sha256", silent.observations.map(sha256));
  if (outputs.length > 0) {
    const loud = await playGold(data, place, outputs);
    for (const [key, value] of rewardEntries(loud.last, "_when_outputs_said")) actual.set(key, value);
  }
  return actual;
}

function rewardEntries({ reward, info }: TauStep, suffix: string): [string, JsonValue][] {
  const rewardInfo = info.get("reward_info");
  return [
    [`reward${suffix}`, new JsonFloat(reward)],
    [`reward_info${suffix}`, rewardInfo instanceof Map ? rewardInfo.get("info")! : null],
  ];
}

type Playthrough = {
  readonly observations: string[];
  /** Index of the gold action that ended the episode. */
  readonly endedBy: number | null;
  readonly last: TauStep;
  readonly dataHash: string;
};

async function playGold(
  data: DomainData,
  { split, index }: { readonly split: string; readonly index: number },
  said: readonly string[],
): Promise<Playthrough> {
  let line = "";
  const episode = new TauEpisode(data, {
    split,
    user: { open: () => Promise.resolve(""), reply: () => Promise.resolve(line), cost: () => 0 },
  });
  const say = (content: string): Promise<TauStep> =>
    episode.step({ name: "respond", kwargs: new Map([["content", content]]) });
  await episode.reset(index);
  for (const output of said) await say(output);
  const observations: string[] = [];
  let last: TauStep | null = null;
  for (const action of data.tasks.get(split)![index]!.actions) {
    last = await episode.step(action);
    observations.push(last.observation);
    if (last.done) break;
  }
  const endedBy = last?.done === true ? observations.length - 1 : null;
  line = "###STOP###";
  if (last?.done !== true) last = await say("");
  return { observations, endedBy, last, dataHash: episode.digest() };
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
