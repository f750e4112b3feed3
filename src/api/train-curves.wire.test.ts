// The curves of a training: each row of metrics.csv is a point, and a resumed training continues them.

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { startMetricServer } from "../telemetry/metric-servers.test-helper.ts";
import { prepareTinyTraining } from "./tiny-training.test-helper.ts";
import { readTraining, train } from "./train.ts";

it("train() writes its steps where --metrics says, and continues there", async () => {
  const { cwd, env, settings } = await prepareTinyTraining();
  const server = await startMetricServer();
  onTestFinished(() => server.close());
  const metrics = `mlflow:${server.url}, trackio:${server.url}, tensorboard, wandb`;
  const notices: string[] = [];
  const shared = {
    cwd,
    env,
    variables: {},
    onEvent: (event: { readonly type: string; readonly message?: string }) => void notices.push(event.message ?? ""),
  };
  await train({ ...shared, ...settings, steps: 2, out: "r", metrics });
  const folder = join(cwd, "r");
  const stepsOf = (name: string): number[] => server.metrics.filter(({ key }) => key === name).map(({ step }) => step);
  expect(stepsOf("pass_rate")).toEqual([1, 2]);
  // A value that a step did not measure is absent, not zero: no evaluation ran in between.
  expect(stepsOf("held_out_pass_rate")).toEqual([]);
  const [header = "", ...rows] = (await readFile(join(folder, "metrics.csv"), "utf8")).trim().split("\n");
  const column = header.split(",").indexOf("sampled_tokens");
  const written = server.metrics.filter(({ key }) => key === "sampled_tokens").map(({ value }) => value);
  expect([column > 0, written]).toEqual([true, rows.map((row) => Number(row.split(",")[column]))]);
  expect(server.params).toContainEqual({ key: "algorithm", value: "grpo" });
  expect(server.logs.size).toBe(2);
  expect(await readdir(join(folder, "tensorboard"))).toHaveLength(1);
  expect(notices.filter((line) => line.startsWith("curves: "))).toHaveLength(2);

  await train({ ...shared, resume: "r", steps: 3 });
  expect(stepsOf("pass_rate")).toEqual([1, 2, 3]);
  expect(server.calls.filter((path) => path === "/runs/create")).toHaveLength(1);
  expect([...server.logs.values()]).toMatchObject([{ step: 1 }, { step: 2 }, { step: 3 }]);
  // The server shows all of them as one training.
  expect(new Set([...server.logs.keys()].map((id) => id.replace(/-\d+$/, ""))).size).toBe(1);
  expect(await readdir(join(folder, "wandb"))).toHaveLength(2);

  await train({ ...shared, resume: "r", steps: 4, metrics: "tensorboard" });
  expect([stepsOf("pass_rate"), server.logs.size]).toEqual([[1, 2, 3], 3]);
});

it("refuses what has no curves, and addresses with a key, before anything is made", async () => {
  const read = async (metrics: string) => readTraining({ variables: {}, metrics });
  await expect(read("tensorboard,prometheus")).rejects.toThrow(
    /Cannot watch a training with --metrics prometheus: it has only curves; expected tensorboard, wandb/,
  );
  await expect(read("traces:messages")).rejects.toThrow(/with --metrics traces:messages/);
  await expect(read("mlflow:http://user:key@127.0.0.1:5000")).rejects.toThrow(/it contains a user name or password/);
});
