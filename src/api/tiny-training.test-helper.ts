// An untrained model, and an environment with random rewards: trainings that take seconds.

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { defineEnvironment } from "../environments/index.ts";
import { initializeWeights, modelShapes, writeCheckpoint } from "../learner/model/index.ts";
import { trainChatTokenizer } from "../tokenizers/index.ts";

/** Prepares a training in a folder of its own, which the test removes. */
export async function prepareTinyTraining() {
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
  const settings = {
    model: ".",
    user: "scripted",
    userLines: "lines.txt",
    maxTurns: 1,
    maxNewTokens: 4,
    groups: 1,
    groupSize: 2,
    finalTasks: 2,
    evalTasks: 1,
    threads: 1,
  } as const;
  return { cwd, env, settings };
}
