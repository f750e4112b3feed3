// The groups of the steps of a training, from its groups.jsonl, which is read again when it changed.

import { stat } from "node:fs/promises";
import { join } from "node:path";
import { readRegular } from "../system/regular-file.ts";
import { objectOf, textOf } from "./episode-store.ts";
import { type PlainJson, type PlainObject, type TrainingGroup, wellFormed } from "./wire/index.ts";

/** Largest file that is read, in bytes, and groups of one step that are shown. */
const mostBytes = 64 << 20;
const mostGroups = 1000;

export type RecordedStep = { readonly staleness: number | null; readonly groups: readonly TrainingGroup[] };
type RecordedSteps = ReadonlyMap<number, RecordedStep>;

let latest: { readonly version: string; readonly steps: RecordedSteps } | null = null;

/** Steps by their number; of a step that was made again, the last line counts. Empty without a readable file. */
export async function readGroups(folder: string): Promise<RecordedSteps> {
  const file = join(folder, "groups.jsonl");
  const found = await stat(file).catch(() => null);
  if (found === null || !found.isFile() || found.size > mostBytes) return new Map();
  const version = `${file} ${found.size} ${found.mtimeMs}`;
  if (latest?.version === version) return latest.steps;
  const steps = new Map<number, RecordedStep>();
  const text = await readRegular(file, "utf8").catch(() => "");
  for (const line of text.split("\n")) {
    let record: PlainObject | null = null;
    try {
      record = objectOf(JSON.parse(line) as PlainJson);
    } catch {
      // The last line is being written.
    }
    const [step, groups] = [record?.["step"], record?.["groups"]];
    if (typeof step !== "number" || !Array.isArray(groups)) continue;
    const read = (groups as readonly PlainJson[]).slice(0, mostGroups).flatMap((one) => groupOf(objectOf(one)));
    steps.set(step, { staleness: numberOf(record?.["staleness"]), groups: read });
  }
  latest = { version, steps };
  return steps;
}

function groupOf(group: PlainObject | null): TrainingGroup[] {
  const [task, rewards] = [textOf(group?.["task"]), group?.["rewards"]];
  if (group === null || task === null || !Array.isArray(rewards)) return [];
  return [
    {
      task: wellFormed(task),
      index: numberOf(group["index"]),
      rewards: (rewards as readonly PlainJson[]).slice(0, mostGroups).map(numberOf),
      taught: group["taught"] === true,
      problems: numberOf(group["problems"]),
      sampledTokens: numberOf(group["sampledTokens"]),
    },
  ];
}

function numberOf(value: PlainJson | undefined): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
