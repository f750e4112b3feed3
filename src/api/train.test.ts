import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { defineEnvironment } from "../environments/index.ts";
import { fakeJudge } from "../graders/fake-judge.test-helper.ts";
import { defineRanking, defineRubric } from "../graders/index.ts";
import type { TrainingEvent } from "../learner/index.ts";
import { initializeWeights, modelShapes, writeCheckpoint } from "../learner/model/index.ts";
import { trainChatTokenizer } from "../tokenizers/index.ts";
import { readTraining, train, type TrainOptions } from "./train.ts";
import { writeFile } from "node:fs/promises";

it("compares a short training on fewer tasks, so that it has time to learn", async () => {
  const finalTasks = async (options: TrainOptions): Promise<number> =>
    (await readTraining({ variables: {}, ...options })).settings.finalTasks;
  expect([await finalTasks({}), await finalTasks({ minutes: 2 }), await finalTasks({ minutes: 0.1 })]).toEqual([
    525, 105, 21,
  ]);
  expect(await finalTasks({ minutes: 2, finalTasks: 1050 })).toBe(1050);
});

it("train() makes steps in an environment given as a value, resumes, and prints nothing", async () => {
  const cwd = await mkdtemp(join(tmpdir(), "train-"));
  onTestFinished(() => rm(cwd, { recursive: true }));
  const shape = { ...modelShapes.nano, hiddenSize: 32, layers: 2, heads: 2, headSize: 16, feedForwardSize: 40 };
  const config = { ...shape, contextLength: 1024, vocabularySize: 272 };
  await writeCheckpoint(cwd, { config, weights: initializeWeights(config, { seed: 1 }) });
  const files = trainChatTokenizer(["Hi. Bye."], { vocabularySize: 272, contextLength: 1024 });
  await writeFile(join(cwd, "tokenizer.json"), JSON.stringify(files.tokenizerJson));
  await writeFile(join(cwd, "tokenizer_config.json"), JSON.stringify(files.tokenizerConfig));
  await writeFile(join(cwd, "lines.txt"), "Hi.\n");
  let episodes = 0;
  const env = defineEnvironment({
    name: "chance",
    guidelines: "Be kind.",
    tools: { wait: { description: "Waits.", parameters: { type: "object", properties: {} }, run: () => "ok" } },
    tasks: { all: Array.from({ length: 12 }, (_, number) => ({ state: { number } })) },
    grade: () => episodes++ % 2,
  });
  const events: TrainingEvent[] = [];
  const shared = { cwd, variables: {}, env, onEvent: (event: TrainingEvent) => void events.push(event) };
  const first = await train({
    ...{ ...shared, model: ".", user: "scripted", userLines: "lines.txt", maxTurns: 1, maxNewTokens: 4, out: "r" },
    ...{ steps: 1, groups: 1, groupSize: 2, finalTasks: 2, evalTasks: 1, threads: 1 },
  });
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
    ...{ ...shared, model: ".", user: "scripted", userLines: "more.txt", maxTurns: 1, maxNewTokens: 4, out: "judged" },
    ...{ steps: 1, groups: 1, maxGroups: 1, groupSize: 2, finalTasks: 2, evalTasks: 1, threads: 1 },
    ...{ env: { ...env, graders: { gradeWeight: 1, use: [rubric, defineRanking()] } }, judgeModel: judge },
  });
  expect(judged.steps).toBe(1);
  // A question for each of two episodes, and one for their group.
  expect(judge.asked).toHaveLength(3);
});
