// The whole path: task, environment and agenda user in the real loop, prompts as token ids from a
// model family's renderer, and the expert as a sampler that sees only those ids.

import { describe, expect, test } from "vitest";
import { agentFactory } from "../../agents/index.ts";
import type { Engine, Episode } from "../../core/index.ts";
import { runEpisode } from "../../rollout/index.ts";
import { rendererFor } from "../../renderers/index.ts";
import { thinkingTemplate } from "../../renderers/published-templates.test-helper.ts";
import type { Sampler, SamplerOptions } from "../../testing/index.ts";
import { createReadableTokenizer } from "../../tokenizers/index.ts";
import { agendaUser } from "../../users/index.ts";
import { bookshopSource, createExpertSampler } from "./index.ts";

const tokenizer = createReadableTokenizer();
const environment = bookshopSource();

function engineOf(noise: number): Engine {
  // The protocol front also accepts this type.
  const sampler: Pick<Sampler, "sample"> = createExpertSampler({ tokenizer, noise, seed: 1 });
  const unused: SamplerOptions = { signal: new AbortController().signal, onTokens: () => "continue" };
  const params = {
    maxNewTokens: 1024,
    minNewTokens: 0,
    temperature: 1,
    topP: 1,
    topK: -1,
    minP: 0,
    frequencyPenalty: 0,
    presencePenalty: 0,
    repetitionPenalty: 1,
    stopTokenIds: new Set<number>(),
    logitBias: new Map<number, number>(),
  };
  return {
    name: "expert",
    close: async () => {},
    sample: async ({ prompt, requestId, sampling }) => {
      const promptIds = prompt.view();
      const request = { promptIds, params: { ...params, seed: sampling.seed }, requestId, routingKey: null };
      const { ids, logprobs } = await sampler.sample(request, unused);
      return {
        sampledTokens: Uint32Array.from(ids),
        logprobs: Float32Array.from(logprobs),
        finish: { reason: "stop", matched: tokenizer.tokenId("<|im_end|>"), raw: null },
        weightSpans: [{ tokenCount: ids.length, dispatch: null, reply: null }],
        usage: { promptTokens: promptIds.length, completionTokens: ids.length, cachedTokens: null },
      };
    },
  };
}

async function run(family: string, noise: number, sampleIndex = 0): Promise<Episode[]> {
  const renderer = rendererFor(family, tokenizer, family === "qwen3" ? { chatTemplate: thinkingTemplate } : {});
  const parts = { environment, user: agendaUser(), engine: engineOf(noise), renderer, strategy: agentFactory() };
  const tasks = environment.taskset("validation");
  const episodes: Episode[] = [];
  for (let index = 0; index < 42; index++) {
    const options = { seed: 100 * sampleIndex + index, seedTurns: true };
    episodes.push(await runEpisode(tasks.task(index), parts, options));
  }
  return episodes;
}

describe.each(["qwen2.5-instruct", "qwen3", "qwen3-instruct-2507"])("in the real loop with prompts of %s", (family) => {
  test("the expert solves every task", async () => {
    const episodes = await run(family, 0);
    expect(episodes.filter((episode) => episode.reward !== 1).map((episode) => episode.grade?.log)).toEqual([]);
    expect(new Set(episodes.map((episode) => episode.stopReason))).toEqual(new Set(["user_hung_up", "tool_ended"]));
    expect(episodes.flatMap((episode) => episode.problems)).toEqual([]);
  });

  test("a noisy expert errs in ways that the loop names, and recovers from some", async () => {
    const episodes = await run(family, 0.25);
    const solved = episodes.filter((episode) => episode.reward === 1);
    expect(solved.length).toBeGreaterThan(8);
    expect(solved.length).toBeLessThan(38);
    const codes = new Set<string>(episodes.flatMap(({ problems }) => problems.map((problem) => problem.code)));
    expect(codes).toEqual(new Set(["not-json", "unknown-tool", "several-calls"]));
    expect(solved.some((episode) => episode.problems.length > 0)).toBe(true);
    expect(episodes.every((episode) => episode.failure === null)).toBe(true);
  });
});

test("samples of one task differ by the seed of their turns alone, and equal seeds give equal episodes", async () => {
  const texts = async (sampleIndex: number): Promise<string[]> =>
    (await run("qwen2.5-instruct", 0.25, sampleIndex)).map((episode) => JSON.stringify(episode.messages));
  const first = await texts(1);
  expect(await texts(1)).toEqual(first);
  const other = await texts(2);
  expect(other.filter((text, index) => text !== first[index]).length).toBeGreaterThan(30);
});
