// The groups of steps in a file: lines of a training that was killed and resumed.

import { appendFile, mkdtemp, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { appendGroups, keepGroups } from "./group-records.ts";
import { groupRecords, type PolicyStep, stalenessOf } from "./policy-learner.ts";

it("keeps the steps up to a checkpoint, without a line that was cut", async () => {
  const path = join(await mkdtemp(join(tmpdir(), "trainable-agents-groups-")), "groups.jsonl");
  await keepGroups(path, 3);
  for (const step of [1, 2, 3]) await appendGroups(path, { step, staleness: null, groups: [] });
  await appendFile(path, '{"step":1,"gro');
  await keepGroups(path, 2);
  await appendGroups(path, { step: 3, staleness: 0, groups: [] });
  const lines = (await readFile(path, "utf8")).trim().split("\n");
  expect(lines.map((line) => (JSON.parse(line) as { readonly step: number }).step)).toEqual([1, 2, 3]);
});

const stepOf = (weightVersion: string, versions: readonly (string | null)[]): PolicyStep =>
  ({
    weightVersion,
    groups: [
      {
        task: { id: "t", index: 4 },
        hasZeroVariance: false,
        episodes: versions.map((dispatch, at) => ({
          episode: {
            reward: at === 0 ? null : 1,
            problems: [{}],
            trajectory: {
              turns: [{ sampledTokens: new Uint32Array(3), weightSpans: [{ dispatch, reply: "step-9" }] }],
            },
          },
        })),
      },
    ],
  }) as unknown as PolicyStep;

it("records what the groups of a step earned, and how old the weights were that sampled them", () => {
  const step = stepOf("step-7", ["step-7", "step-4", "step-6"]);
  expect(stalenessOf(step)).toBe(3);
  expect(stalenessOf(stepOf("step-7", ["step-7"]))).toBe(0);
  expect(stalenessOf(stepOf("default", ["default"]))).toBeNull();
  expect(groupRecords(step)).toEqual([
    { task: "t", index: 4, rewards: [null, 1, 1], taught: true, problems: 3, sampledTokens: 9 },
  ]);
});
