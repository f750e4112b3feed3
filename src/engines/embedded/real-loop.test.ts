// A real model in the real loop: an untrained nano model runs the bookshop through renderer,
// recorder and samples, and the logprobs reported while sampling equal those of a training pass
// over the samples.

import { afterAll, beforeAll, expect, test } from "vitest";

import { agentFactory } from "../../agents/index.ts";
import type { Episode, Tokenizer } from "../../core/index.ts";
import { bookshopSource } from "../../environments/bookshop/index.ts";
import { episodeSamples, runEpisode } from "../../rollout/index.ts";
import { initializeWeights, modelShapes, packSequences, TrainingModel } from "../../learner/model/index.ts";
import { rendererFor } from "../../renderers/index.ts";
import { createReadableTokenizer, createTokenizer, trainChatTokenizer } from "../../tokenizers/index.ts";
import { agendaUser } from "../../users/index.ts";
import { createEmbeddedEngine, type EmbeddedEngine } from "./embedded-engine.ts";

const environment = bookshopSource();
const tasks = environment.taskset("train");
const vocabularySize = 768;
const config = { ...modelShapes.nano, vocabularySize };
const checkpoint = { config, weights: initializeWeights(config, { seed: 1 }) };
const family = "qwen3-instruct-2507";
let tokenizer: Tokenizer;
let engine: EmbeddedEngine;

beforeAll(async () => {
  const { guidelines, tools } = environment.open(tasks.task(0));
  const system = { role: "system", content: guidelines } as const;
  const prompt = rendererFor(family, createReadableTokenizer()).renderPrompt([system], tools).text;
  const openings = Array.from({ length: 200 }, (_, index) => JSON.stringify(tasks.task(index).agenda));
  tokenizer = await createTokenizer("nano", trainChatTokenizer([prompt, ...openings], { vocabularySize }));
  engine = createEmbeddedEngine({ checkpoint, threads: 2 });
});
afterAll(() => engine.close());

async function play(count: number): Promise<readonly Episode[]> {
  const renderer = rendererFor(family, tokenizer);
  const parts = { environment, user: agendaUser(), engine, renderer, strategy: agentFactory() };
  const options = { seedTurns: true, sampling: { maxNewTokens: 24 }, limits: { maxTurns: 4 } };
  return Promise.all(
    Array.from({ length: count }, (_, index) => runEpisode(tasks.task(index), parts, { ...options, seed: index })),
  );
}

test("episodes end by a limit, are graded, and come out the same when they are played again", async () => {
  const episodes = await play(12);
  expect(episodes.map(({ failure }) => failure)).toEqual(Array.from(episodes, () => null));
  expect(episodes.every(({ reward }) => reward !== null)).toBe(true);
  const again = await play(12);
  expect(again.map(({ messages }) => messages)).toEqual(episodes.map(({ messages }) => messages));
});

test("logprobs of the samples are those of a training pass over them", async () => {
  const samples = (await play(6)).flatMap((episode) => episodeSamples(episode).samples);
  const [first] = samples;
  let prefixLength = 0;
  while (samples.every(({ tokens }) => tokens[prefixLength] === first!.tokens[prefixLength])) prefixLength += 1;
  expect(prefixLength).toBeGreaterThan(500);
  const sequences = samples.map(({ tokens, lossMask }) => ({
    tokens,
    targets: [...tokens.keys()].filter((place) => lossMask[place] === 1),
  }));
  const model = new TrainingModel({ ...checkpoint, maxTokens: 6000, maxTargets: 1000 });
  const trained = model.forward(packSequences(sequences, { prefixLength })).logprobs;
  const sampled = samples.flatMap(({ logprobs, lossMask }) =>
    [...logprobs!].filter((_, place) => lossMask[place] === 1),
  );
  expect(sampled).toHaveLength(trained.length);
  const differences = sampled.map((logprob, index) => Math.abs(logprob - trained[index]!));
  expect(Math.max(...differences)).toBeLessThan(1e-4);
  expect(sampled.length).toBeGreaterThan(400);
});
