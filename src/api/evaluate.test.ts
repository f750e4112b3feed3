import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { evaluate, planEvaluation } from "./evaluate.ts";

it("evaluate() runs and scores, scores again what a folder holds, and prints nothing", async () => {
  const cwd = await mkdtemp(join(tmpdir(), "evaluate-"));
  onTestFinished(() => rm(cwd, { recursive: true }));
  const options = { cwd, variables: {}, trials: 2, tasks: [0, 2], passK: [1, 2], expertNoise: 0.3, out: "r" };
  const first = await evaluate({ ...options, engine: "expert" });
  expect(first).toMatchObject({ source: "r", title: "bookshop (train)", rescored: null, rollout: { status: "done" } });
  expect(first.scores.map(({ taskIndex, trial }) => [taskIndex, trial])).toEqual([
    [0, 0],
    [0, 1],
    [2, 0],
    [2, 1],
  ]);
  expect(first.evaluation.passRates.map(({ k }) => k)).toEqual([1, 2]);
  expect(JSON.parse(await readFile(join(cwd, "r", "results.json"), "utf8"))).toMatchObject({ format: 1, episodes: 4 });
  const again = await evaluate({ cwd, variables: {}, from: "r", passK: [1, 2] });
  expect([again.evaluation, again.rollout]).toEqual([first.evaluation, null]);
});

it("planEvaluation() names the tasks in the order in which they run", async () => {
  const { settings } = await planEvaluation({ cwd: tmpdir(), variables: {}, engine: "expert", taskIds: ["7", "3"] });
  expect(settings.tasks).toBe("7,3");
});
