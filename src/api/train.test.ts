import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { fakeJudge } from "../graders/fake-judge.test-helper.ts";
import { defineRanking, defineRubric } from "../graders/index.ts";
import type { TrainingEvent } from "../learner/index.ts";
import { prepareTinyTraining } from "./tiny-training.test-helper.ts";
import { readTraining, train, type TrainOptions } from "./train.ts";

it("compares a short training on fewer tasks, so that it has time to learn", async () => {
  const finalTasks = async (options: TrainOptions): Promise<number> =>
    (await readTraining({ variables: {}, ...options })).settings.finalTasks;
  expect([await finalTasks({}), await finalTasks({ minutes: 2 }), await finalTasks({ minutes: 0.1 })]).toEqual([
    525, 105, 21,
  ]);
  expect(await finalTasks({ minutes: 2, finalTasks: 1050 })).toBe(1050);
});

it("train() makes steps in an environment given as a value, resumes, and prints nothing", async () => {
  const { cwd, env, settings } = await prepareTinyTraining();
  const events: TrainingEvent[] = [];
  const shared = { cwd, variables: {}, env, onEvent: (event: TrainingEvent) => void events.push(event) };
  const first = await train({ ...shared, ...settings, steps: 1, out: "r" });
  expect(first).toMatchObject({ folder: "r", steps: 1, end: { type: "steps" } });
  expect(first.comparison?.[0]).toMatchObject({ kind: "all", tasks: 2 });
  expect(await readdir(join(cwd, "r", "checkpoints"))).toEqual(["step-000001"]);
  expect(events.map(({ type }) => type)).toEqual(expect.arrayContaining(["notice", "progress"]));
  const second = await train({ ...shared, resume: "r", steps: 2 });
  expect(second).toMatchObject({ folder: "r", steps: 2 });
  await expect(train({ ...shared, resume: "r", lr: 1 })).rejects.toThrow("a run continues as it began");

  // Models grade what is trained on; what was learnt is measured by the environment.
  const judge = fakeJudge((name, shown) => (name === "kind" ? 1 : shown.length % 7) / 7);
  const rubric = defineRubric({ criteria: [{ name: "kind", description: "Was kind.", scale: [0, 1] }] });
  await writeFile(join(cwd, "more.txt"), "Hi.\nBye.\n");
  const judged = await train({
    ...{ ...shared, ...settings, userLines: "more.txt", steps: 1, maxGroups: 1, out: "judged" },
    ...{ env: { ...env, graders: { gradeWeight: 1, use: [rubric, defineRanking()] } }, judgeModel: judge },
  });
  expect(judged.steps).toBe(1);
  // A question for each of two episodes, and one for their group.
  expect(judge.asked).toHaveLength(3);
});
