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
  expect([await finalTasks({}), await finalTasks({ minutes: 6 }), await finalTasks({ minutes: 6, fromExpert: "x.ts" })]).toEqual([525, 315, 158]); // prettier-ignore
  expect(await finalTasks({ minutes: 2, finalTasks: 1050 })).toBe(1050);
});

it("has the defaults of a demonstration below five minutes, each of which may be given otherwise", async () => {
  const read = async (options: TrainOptions): Promise<Record<string, unknown>> => {
    const { settings, base } = await readTraining({ variables: {}, ...options });
    const { groups, kl, cases } = settings;
    return { groups, kl, cases, model: base.model };
  };
  const cases = "cancel/plain,cancel/shipped,cancel/delivered";
  const whole = { groups: 16, kl: 0.1, cases: null, model: null };
  expect(await read({ minutes: 2 })).toEqual({ groups: 8, kl: 0, cases, model: "bookshop-nano" });
  expect(await read({ minutes: 2, groups: 4, cases: "owner" })).toMatchObject({ groups: 4, cases: "owner" });
  expect(await read({ minutes: 2, model: "bookshop-1m" })).toEqual({ ...whole, groups: 8, kl: 0, model: "bookshop-1m" }); // prettier-ignore
  for (const options of [{}, { minutes: 5 }, { minutes: 2, steps: 3 }, { minutes: 2, algorithm: "reinforce" as const }])
    expect(await read(options), JSON.stringify(options)).toEqual(whole);
});

it("says what to correct where no task is left, and that a model of the bookshop does not know another world", async () => {
  const { cwd, env, settings } = await prepareTinyTraining();
  const given = { cwd, variables: {}, env, ...settings, out: "chosen" };
  await expect(train({ ...given, cases: "all, oak" })).rejects.toThrow(
    'of "oak": the kinds and cases are all; correct',
  );
  const notices: string[] = [];
  const stop = new AbortController();
  const onEvent = (event: TrainingEvent): void => {
    if (event.type !== "notice") return;
    notices.push(event.message);
    if (event.message.includes("has only seen the bookshop")) stop.abort();
  };
  const { model: _, ...withoutModel } = given;
  await train({ ...withoutModel, onEvent, signal: stop.signal });
  expect(notices.join("\n")).toMatch(/"bookshop-1m" has only seen the bookshop, never ".+", so .*--from-expert/);
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

  // Models grade the episodes that are trained on; the environment measures the progress.
  const judge = fakeJudge((name, shown) => (name === "kind" ? 1 : shown.length % 7) / 7);
  const rubric = defineRubric({ criteria: [{ name: "kind", description: "Was kind.", scale: [0, 1] }] });
  await writeFile(join(cwd, "more.txt"), "Hi.\nBye.\n");
  const judged = await train({
    ...shared,
    ...settings,
    userLines: "more.txt",
    steps: 1,
    maxGroups: 1,
    out: "judged",
    env: { ...env, graders: { gradeWeight: 1, use: [rubric, defineRanking()] } },
    judgeModel: judge,
  });
  expect(judged.steps).toBe(1);
  // One call for each of two episodes, and one for their group.
  expect(judge.asked).toHaveLength(3);
});
