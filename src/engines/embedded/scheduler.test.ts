import { describe, expect, test } from "vitest";

import type { ScoreResult } from "../../core/scoring.ts";
import { Decoder, packSequences, TrainingModel } from "../../learner/model/index.ts";
import { plainParams } from "../plain-params.test-helper.ts";
import { testConfig, testPrompt, testWeights } from "./embedded.test-helper.ts";
import type { Generated, GenerationParams } from "../token-sampling.ts";
import { Scheduler } from "./scheduler.ts";

const weights = testWeights(3);

type Harness = {
  readonly scheduler: Scheduler;
  readonly finished: Map<number, Generated>;
  /** `null` for an aborted score. */
  readonly scored: Map<number, ScoreResult | null>;
  /** Runs steps until nothing is left to do. */
  readonly run: () => number;
};

function makeScheduler(options: { maxRows?: number; maxSequences?: number; pages?: number } = {}): Harness {
  const { maxRows = 64, maxSequences = 16, pages = 200 } = options;
  const decoder = new Decoder({ config: testConfig, weights, maxRows, maxSequences, pages });
  const finished = new Map<number, Generated>();
  const scored = new Map<number, ScoreResult | null>();
  const scheduler = new Scheduler(
    { decoder, maxSequences, pages, weightVersion: "v1" },
    {
      onToken: () => {},
      onFinish: (call, result) => finished.set(call, result),
      onScored: (call, scores) => scored.set(call, scores),
      onFault: (_, problem) => {
        throw new Error(problem);
      },
    },
  );
  const run = (): number => {
    let steps = 0;
    for (; !scheduler.isIdle; steps++) {
      if (steps > 5000) throw new Error("The scheduler makes no progress.");
      scheduler.step();
    }
    return steps;
  };
  return { scheduler, finished, scored, run };
}

function ask(prompt: Uint32Array, params: Partial<GenerationParams> = {}): Generated {
  const { scheduler, finished, run } = makeScheduler();
  scheduler.add(0, prompt, { ...plainParams, ...params });
  run();
  return finished.get(0)!;
}

/** Prompts of many lengths; every third shares a prefix with the one before. */
const prompts = Array.from({ length: 24 }, (_, index) => {
  const prompt = testPrompt(1 + ((index * 37) % 120), index);
  if (index % 3 === 1) prompt.set(testPrompt(1 + (((index - 1) * 37) % 120), index - 1).subarray(0, prompt.length));
  return prompt;
});
const paramsOf = (index: number): GenerationParams =>
  index % 2 === 0 ? { ...plainParams, topK: 1 } : { ...plainParams, seed: index, topP: index % 4 === 1 ? 0.8 : 1 };

describe("what a generation samples depends on its prompt, parameters and weights alone", () => {
  const alone = prompts.map((prompt, index) => ask(prompt, paramsOf(index)));

  test.each([
    ["all at once", {}],
    ["rows for a prompt in small pieces", { maxRows: 7, maxSequences: 5 }],
    ["one at a time", { maxSequences: 1 }],
    ["hardly any room in the cache, so that some are taken out again", { pages: 16, maxSequences: 12 }],
  ])("%s", (_, options) => {
    const { scheduler, finished, run } = makeScheduler(options);
    prompts.forEach((prompt, index) => scheduler.add(index, prompt, paramsOf(index)));
    run();
    for (const [index, wanted] of alone.entries()) {
      const { ids, logprobs } = finished.get(index)!;
      expect([index, [...ids]]).toEqual([index, [...wanted.ids]]);
      expect(logprobs).toEqual(wanted.logprobs);
    }
  });

  test("when a long prompt wants the pages of a younger one that awaits its next token", () => {
    const params = { ...plainParams, maxNewTokens: 100 };
    const [long, short] = [testPrompt(150, 31), testPrompt(10, 32)];
    const { scheduler, finished, run } = makeScheduler({ maxRows: 12, maxSequences: 2, pages: 16 });
    [long, short].forEach((prompt, call) => scheduler.add(call, prompt, params));
    run();
    [long, short].forEach((prompt, call) => expect(finished.get(call)!.ids).toEqual(ask(prompt, params).ids));
  });

  test("when calls come while others run", () => {
    const { scheduler, finished, run } = makeScheduler({ maxRows: 40, maxSequences: 4 });
    prompts.forEach((prompt, index) => {
      scheduler.add(index, prompt, paramsOf(index));
      scheduler.step();
      if (index % 5 === 0) scheduler.retractAll();
    });
    run();
    alone.forEach((wanted, index) => expect(finished.get(index)!.ids).toEqual(wanted.ids));
  });
});

test("logprobs are those of the training pass", () => {
  const model = new TrainingModel({ config: testConfig, weights, maxTokens: 256, maxTargets: 64 });
  for (const temperature of [1, 0.5]) {
    const prompt = testPrompt(50, 9);
    const { ids, logprobs } = ask(prompt, { temperature, maxNewTokens: 40 });
    const tokens = [...prompt, ...ids];
    const targets = Array.from(ids, (_, index) => 50 + index);
    const trained = model.forward(packSequences([{ tokens, targets }])).logprobs;
    const largest = Math.max(...logprobs.map((logprob, index) => Math.abs(logprob - trained[index]!)));
    if (temperature === 1) expect(largest).toBeLessThan(1e-5);
    else expect(largest).toBeGreaterThan(0.01);
  }
});

describe("the cache", () => {
  test("serves the next turn of an episode from the one before, but for what is new", () => {
    const { scheduler, finished, run } = makeScheduler();
    let prompt = testPrompt(40, 1);
    let known = 0;
    for (let turn = 0; turn < 3; turn++) {
      scheduler.add(turn, prompt, { ...plainParams, seed: turn });
      run();
      const { ids, cachedTokens } = finished.get(turn)!;
      expect(cachedTokens).toBe(known);
      // The last sampled token was never computed.
      known = prompt.length + ids.length - 1;
      prompt = Uint32Array.from([...prompt, ...ids, ...testPrompt(9, 50 + turn)]);
    }
  });

  test("serves samples of one prompt from one another, all but its last token", () => {
    const { scheduler, finished, run } = makeScheduler();
    const prompt = testPrompt(100, 1);
    scheduler.add(0, prompt, plainParams);
    run();
    for (let call = 1; call < 9; call++) scheduler.add(call, prompt, { ...plainParams, seed: call });
    run();
    for (let call = 1; call < 9; call++) expect(finished.get(call)!.cachedTokens).toBe(99);
  });

  test("is empty after flushCache()", () => {
    const { scheduler, finished, run } = makeScheduler();
    for (const call of [0, 1]) {
      scheduler.add(call, prompts[5]!, plainParams);
      run();
      scheduler.flushCache();
    }
    expect(finished.get(1)!.cachedTokens).toBe(0);
  });

  test("gives no page away twice and loses none, whatever happens", () => {
    const pages = 40;
    const { scheduler, finished, run } = makeScheduler({ pages, maxRows: 30, maxSequences: 10 });
    for (let call = 0; call < 120; call++) {
      scheduler.add(call, testPrompt(1 + ((call * 61) % 200), call % 7), { ...plainParams, seed: call });
      for (let step = 0; step < call % 4; step++) scheduler.step();
      if (call % 11 === 0) scheduler.abort(call - 3);
      if (call % 17 === 0) scheduler.retractAll();
    }
    run();
    expect(finished.size).toBe(120);
    // All pages are free again: a generation that needs nearly every page is served.
    scheduler.add(200, testPrompt(240, 99), { ...plainParams, maxNewTokens: 16 });
    run();
    expect(finished.get(200)!.ids).toEqual(ask(testPrompt(240, 99), { maxNewTokens: 16 }).ids);
  });
});

describe("a generation ends", () => {
  const free = ask(prompts[4]!, { topK: 1 });

  test("with the bound", () => {
    expect(free).toMatchObject({ reason: "length", versions: [{ version: "v1", count: 12 }] });
    expect(free.ids).toHaveLength(12);
  });

  test("with a stop token, which it includes", () => {
    const stop = free.ids[5]!;
    const first = free.ids.indexOf(stop);
    const { ids, reason } = ask(prompts[4]!, { topK: 1, stopTokenIds: new Set([stop]) });
    expect(reason).toBe("matched");
    expect(ids).toEqual(free.ids.slice(0, first + 1));
  });

  test("not with a stop token before the least number of tokens", () => {
    const stop = free.ids[0]!;
    const { ids } = ask(prompts[4]!, { topK: 1, stopTokenIds: new Set([stop]), minNewTokens: 4 });
    expect(ids.length).toBeGreaterThanOrEqual(4);
    expect(ids.slice(0, 3)).not.toContain(stop);
  });

  test("at once when nothing may be sampled", () => {
    expect(ask(prompts[4]!, { maxNewTokens: 0 })).toMatchObject({ reason: "length", ids: new Uint32Array(0) });
  });

  test("with what it has when it is aborted, waiting or running", () => {
    const { scheduler, finished } = makeScheduler({ maxSequences: 1 });
    for (const call of [0, 1]) scheduler.add(call, prompts[4]!, { ...plainParams, topK: 1 });
    for (let step = 0; step < 4; step++) scheduler.step();
    scheduler.abort(7);
    scheduler.abort(1);
    scheduler.abort(0);
    expect(finished.get(1)).toMatchObject({ reason: "abort", ids: new Uint32Array(0) });
    expect(finished.get(0)!.reason).toBe("abort");
    expect(finished.get(0)!.ids).toEqual(free.ids.slice(0, finished.get(0)!.ids.length));
    expect(finished.get(0)!.ids.length).toBeGreaterThan(0);
    expect(scheduler.isIdle).toBe(true);
  });
});

test("setWeights() in the midst: what comes after is what the new weights say of all before", () => {
  const { scheduler, finished, run } = makeScheduler();
  const params = { ...plainParams, topK: 1 };
  scheduler.add(0, prompts[4]!, params);
  for (let step = 0; step < 6; step++) scheduler.step();
  const other = testWeights(8);
  scheduler.setWeights(other, "v2");
  run();
  const { ids, versions } = finished.get(0)!;
  expect(versions.map(({ version }) => version)).toEqual(["v1", "v2"]);
  const before = versions[0]!.count;
  const fresh = makeScheduler();
  fresh.scheduler.setWeights(other, "v2");
  const prompt = Uint32Array.from([...prompts[4]!, ...ids.slice(0, before)]);
  fresh.scheduler.add(0, prompt, { ...params, maxNewTokens: params.maxNewTokens - before });
  fresh.run();
  expect(fresh.finished.get(0)!.ids).toEqual(ids.slice(before));
});

describe("a score", () => {
  const [whole] = [testPrompt(90, 77)];
  const scoreOf = (from: number, options: Parameters<typeof makeScheduler>[0] = {}): ScoreResult => {
    const { scheduler, scored, run } = makeScheduler(options);
    scheduler.addScore(0, { tokens: whole, from, topTokens: 4 });
    run();
    return scored.get(0)!;
  };

  test("equals the model's own logprobs, and lists the most probable tokens", () => {
    const model = new TrainingModel({ config: testConfig, weights, maxTokens: 256, maxTargets: 256 });
    const targets = Uint32Array.from({ length: whole.length - 1 }, (_, at) => at + 1);
    const expected = model.forward(packSequences([{ tokens: whole, targets }])).logprobs;
    const { logprobs, top, weightVersion } = scoreOf(1);
    expect(weightVersion).toBe("v1");
    expect(logprobs).toHaveLength(89);
    logprobs.forEach((logprob, at) => expect(Math.abs(logprob - expected[at]!)).toBeLessThan(1e-4));
    expect(top!.ids).toHaveLength(89 * 4);
    // The token that a greedy generation samples is the most probable one.
    const greedy = ask(whole.subarray(0, 50), { topK: 1, maxNewTokens: 1 });
    expect(top!.ids[49 * 4]).toBe(greedy.ids[0]);
    expect(Math.abs(top!.logprobs[49 * 4]! - greedy.logprobs[0]!)).toBeLessThan(1e-5);
  });

  test.each([
    ["from the middle", 60, {}],
    ["of the last token", 89, {}],
    ["row by row", 30, { maxRows: 1 }],
    ["in small chunks", 1, { maxRows: 7 }],
  ])("%s equals the score of all", (_, from, options) => {
    const all = scoreOf(1);
    const some = scoreOf(from, options);
    expect(some.logprobs).toEqual(all.logprobs.subarray(from - 1));
    expect(some.top!.ids).toEqual(all.top!.ids.subarray((from - 1) * 4));
  });

  test("is the same beside generations, in a small cache and with a cached prefix", () => {
    const alone = scoreOf(40);
    const { scheduler, scored, finished, run } = makeScheduler({ maxSequences: 4, pages: 20 });
    const other = ask(whole.subarray(0, 70), { maxNewTokens: 20, seed: 3 });
    for (let call = 0; call < 8; call++) {
      if (call % 2 === 0) scheduler.addScore(call, { tokens: whole, from: 40, topTokens: 4 });
      else scheduler.add(call, whole.subarray(0, 70), { ...plainParams, maxNewTokens: 20, seed: 3 });
    }
    run();
    for (let call = 0; call < 8; call++) {
      if (call % 2 === 0) expect(scored.get(call)).toEqual(alone);
      else expect(finished.get(call)!.ids).toEqual(other.ids);
    }
  });

  test("belongs to one version of the weights, whatever was computed before", () => {
    const other = testWeights(8);
    const { scheduler, scored, run } = makeScheduler({ maxRows: 32 });
    scheduler.addScore(0, { tokens: whole, from: 1, topTokens: 0 });
    scheduler.step();
    scheduler.setWeights(other, "v2");
    run();
    const fresh = makeScheduler();
    fresh.scheduler.setWeights(other, "v2");
    fresh.scheduler.addScore(0, { tokens: whole, from: 1, topTokens: 0 });
    fresh.run();
    expect(scored.get(0)).toEqual(fresh.scored.get(0));
    expect(scored.get(0)!.weightVersion).toBe("v2");
  });

  test("that is aborted has no result, whether it has begun or waits", () => {
    const { scheduler, scored, run } = makeScheduler({ maxRows: 8, maxSequences: 1 });
    for (const call of [0, 1]) scheduler.addScore(call, { tokens: whole, from: 1, topTokens: 0 });
    scheduler.step();
    for (const call of [0, 1]) scheduler.abort(call);
    run();
    expect(scored).toEqual(
      new Map([
        [0, null],
        [1, null],
      ]),
    );
  });
});
