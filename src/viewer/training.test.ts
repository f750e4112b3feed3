// A training on its page: intervals of its rates, the groups of its steps, and files of any content.

import { mkdir, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterEach, expect, it } from "vitest";
import { exportView, view } from "../api/view.ts";
import { rateInterval } from "../statistics/index.ts";
import { withInterval } from "./training.ts";
import type { TrainingStep } from "./wire/index.ts";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const trainingIn = async (folder: string): Promise<string> => {
  await mkdir(folder, { recursive: true });
  const learning = { algorithm: "grpo", evalTasks: 10 };
  await writeFile(join(folder, "train.json"), JSON.stringify({ environment: "bookshop", learning }));
  const header = "step,pass_rate,groups,live_groups,mean_reward,held_out_pass_rate,held_out_greedy";
  await writeFile(join(folder, "metrics.csv"), `${header}\n1,0.25,8,4,0.3,,\n2,0.5,8,6,0.5,0.6,0.9\n`);
  return folder;
};
const group = { task: "t1", index: 3, rewards: [1, 0, null], taught: true, problems: 2, sampledTokens: 40 };

it("has intervals of its pass rates, sampled and greedy", () => {
  const step = { step: 1, groups: 8, pass_rate: 0.5, held_out_pass_rate: 0.6, held_out_greedy: 1 };
  const ones = (passed: number, tasks: number) => Array.from({ length: tasks }, (_, at) => (at < passed ? 1 : 0));
  expect(withInterval(step, 10)).toEqual({
    ...step,
    pass_rate_low: rateInterval(ones(4, 8))!.low,
    pass_rate_high: rateInterval(ones(4, 8))!.high,
    held_out_low: rateInterval(ones(6, 10))!.low,
    held_out_high: rateInterval(ones(6, 10))!.high,
    greedy_low: rateInterval(ones(10, 10))!.low,
    greedy_high: 1,
  });
  for (const tasks of [null, 1, "10", -1, 1e9])
    expect(withInterval({ held_out_greedy: 0.5 }, tasks)).toEqual({ held_out_greedy: 0.5 });
  expect(withInterval({ pass_rate: 7, groups: 8 }, 10)).toEqual({ pass_rate: 7, groups: 8 });
});

it("opens the groups of a step, and reads no more of them than are there", async () => {
  const folder = await trainingIn(join(await mkdtemp(join(tmpdir(), "trainable-agents-training-")), "one"));
  const file = join(folder, "groups.jsonl");
  const lines = [
    { step: 1, staleness: 0, groups: [group] },
    { step: 2, staleness: 3, groups: [group, { ...group, taught: false }] },
    { step: 2, staleness: 1, groups: [{ ...group, task: "again" }] },
  ];
  await writeFile(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  await writeFile(
    file,
    '[]\n{"step":"x","groups":[]}\n{"step":5,"groups":[null,{"task":1},{"task":"\\ud800","rewards":["1",2]}]}\n{"st',
    { flag: "a" },
  );
  const viewer = await view({ sources: [folder], listen: "127.0.0.1:0", variables: {} });
  closing.push(() => viewer.close());
  const ask = async (path: string): Promise<unknown> => (await fetch(`${viewer.url}api/${path}`)).json();
  expect(await ask("training?run=0")).toMatchObject({
    hasGroups: true,
    steps: [{ staleness: 0 }, { staleness: 1, held_out_greedy: 0.9 }],
  });
  expect(await ask("step?run=0&step=2")).toEqual({
    step: 2,
    groups: [{ ...group, task: "again" }],
  } satisfies TrainingStep);
  expect(await ask("step?run=0&step=5")).toMatchObject({
    groups: [{ task: "\ufffd", rewards: [null, 2], taught: false, problems: null }],
  });
  expect(await ask("step?run=0&step=9")).toEqual({ step: 9, groups: null });
  expect(await ask("step?run=0")).toEqual({ step: null, groups: null });
});

it("is exported with another one that is laid over it", async () => {
  const folder = await mkdtemp(join(tmpdir(), "trainable-agents-training-"));
  const sources = [await trainingIn(join(folder, "one")), await trainingIn(join(folder, "two"))];
  const file = join(folder, "page.html");
  expect(await exportView({ sources, file })).toBeGreaterThan(1000);
  const [packed = ""] = /[A-Za-z0-9+/=]{500,}/.exec(await readFile(file, "utf8")) ?? [];
  const data = gunzipSync(Buffer.from(packed, "base64")).toString();
  // The page may go to other people: it does not say where on this machine its folders are.
  expect([data.includes(folder), data.includes('"location\\":\\"two')]).toEqual([false, true]);
});
