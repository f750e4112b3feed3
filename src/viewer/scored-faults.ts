// Whose fault failures are, as `eval` wrote it into results.json of a run: a judge may have decided,
// with facts of tasks that the record of an episode does not have.

import { stat } from "node:fs/promises";
import { join } from "node:path";
import { objectOf, readJsonFile, textOf } from "./episode-store.ts";
import type { PlainJson, Row, RowFault } from "./wire/index.ts";

const mostBytes = 256 << 20;
const mostCharacters = 400;
const faults: readonly string[] = ["agent", "user", "environment", "infrastructure"] satisfies RowFault["fault"][];

/** Names an episode as results.json does; with the reward, so that results of before do not count. */
export function scoreKey({ taskId, sampleIndex, reward }: Pick<Row, "taskId" | "sampleIndex" | "reward">): string {
  return JSON.stringify([taskId, sampleIndex, reward]);
}

/** Empty if the run was not evaluated, or its results have another format. */
export async function readScoredFaults(folder: string): Promise<ReadonlyMap<string, RowFault>> {
  const found = new Map<string, RowFault>();
  const file = join(folder, "results.json");
  const size = await stat(file).then(
    (one) => one.size,
    () => Infinity,
  );
  const results = size > mostBytes ? null : await readJsonFile(file).catch(() => null);
  const scores = results?.["scores"];
  for (const one of Array.isArray(scores) ? (scores as readonly PlainJson[]) : []) {
    const score = objectOf(one);
    const given = objectOf(score?.["fault"]);
    const [taskId, fault] = [textOf(score?.["taskId"]), textOf(given?.["fault"])];
    const [trial, reward] = [score?.["trial"], score?.["reward"]];
    if (taskId === null || fault === null || !faults.includes(fault) || typeof trial !== "number") continue;
    found.set(scoreKey({ taskId, sampleIndex: trial, reward: typeof reward === "number" ? reward : null }), {
      fault: fault as RowFault["fault"],
      rule: (textOf(given?.["rule"]) ?? "").slice(0, mostCharacters),
      evidence: (textOf(given?.["evidence"]) ?? "").slice(0, mostCharacters),
      by: given?.["by"] === "judge" ? "judge" : "rules",
    });
  }
  return found;
}
