// The groups of each step of a training, as lines of groups.jsonl: tasks, rewards and what they
// taught. Their episodes are not kept.

import { appendFile } from "node:fs/promises";
import { readRegular } from "../system/regular-file.ts";
import type { GroupRecord } from "./policy-learner.ts";
import { replaceFile } from "./training-folder.ts";

export const groupsFile = "groups.jsonl";

export type StepGroups = {
  /** Number of steps since the oldest weights that sampled; `null` if not known. */
  readonly staleness: number | null;
  readonly groups: readonly GroupRecord[];
};

export async function appendGroups(path: string, record: StepGroups & { readonly step: number }): Promise<void> {
  await appendFile(path, `${JSON.stringify(record)}\n`);
}

/** Drops the lines after a step, which a resumed training makes again, and one that was cut. */
export async function keepGroups(path: string, last: number): Promise<void> {
  const text = await readRegular(path, "utf8").catch(() => "");
  if (text === "") return;
  const kept = text.split("\n").filter((line) => {
    try {
      return (JSON.parse(line) as { readonly step: number }).step <= last;
    } catch {
      return false;
    }
  });
  await replaceFile(path, kept.map((line) => `${line}\n`).join(""));
}
