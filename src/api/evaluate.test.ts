import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { evaluate, planEvaluation } from "./evaluate.ts";
import type { RolloutEvent } from "./rollout.ts";

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

it("evaluate() counts a recording once, in a file and in several results, and says so", async () => {
  const cwd = await mkdtemp(join(tmpdir(), "evaluate-"));
  onTestFinished(() => rm(cwd, { recursive: true }));
  const notices: string[] = [];
  const onEvent = (event: RolloutEvent): void => void (event.type === "notice" && notices.push(event.message));
  const scoring = { cwd, variables: {}, onEvent };
  const options = { ...scoring, engine: "expert", trials: 2, tasks: [0], out: "a" } as const;
  await evaluate(options);
  await evaluate({ ...options, out: "b" });
  await cp(join(cwd, "a"), join(cwd, "copy"), { recursive: true });
  const alone = await evaluate({ ...scoring, from: "a" });
  expect(alone.scores).toHaveLength(2);
  expect(notices.filter((one) => one.includes("counts once"))).toEqual([]);
  // Two runs with the same settings and seed are still different episodes.
  const both = await evaluate({ ...scoring, from: ["a", "b"] });
  expect(both.scores).toHaveLength(4);
  expect(notices.filter((one) => one.includes("counts once"))).toEqual([]);
  const copied = await evaluate({ ...scoring, from: ["a", "copy", "b"] });
  expect(copied.scores.map(({ trial }) => trial)).toEqual([0, 1, 2, 3]);
  expect(copied.evaluation.tasks).toMatchObject([{ trials: 4 }]);
  expect(notices.at(-1)).toBe(
    'Note: 2 of 2 episodes of "copy" repeat those of an earlier result; each recording counts once.',
  );
  const simulation = { id: "s", task_id: "t", trial: 0, termination_reason: "user_stop", reward_info: { reward: 1 } };
  const info = { environment_info: { domain_name: "mock" } };
  const file = { info, tasks: [], simulations: [simulation, { ...simulation, trial: 1 }, simulation] };
  await writeFile(join(cwd, "tau2.json"), JSON.stringify(file));
  const thrice = await evaluate({ ...scoring, from: "tau2.json" });
  expect(thrice.evaluation).toMatchObject({ episodes: 1, passRates: [{ k: 1, passHatK: 1 }] });
  expect(notices.at(-1)).toBe('Note: 2 of 3 episodes of "tau2.json" repeat others in it; each recording counts once.');
  const run = { task_id: 0, trial: 0, reward: 1, info: {}, traj: [] };
  const entries = JSON.stringify([run, { ...run, trial: 1, reward: 2 }, run, run]).replace(
    '"reward":2',
    '"reward":NaN',
  );
  await writeFile(join(cwd, "tau.json"), entries);
  for (const more of [{}, { env: "bookshop" }]) {
    const scored = await evaluate({ ...scoring, ...more, from: "tau.json" });
    expect(scored.evaluation).toMatchObject({ episodes: 2, graded: 1, successes: 1 });
    expect(notices).toContain('Note: 2 of 4 episodes of "tau.json" repeat others in it; each recording counts once.');
  }
});
