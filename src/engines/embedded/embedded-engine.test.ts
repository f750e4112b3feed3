import { afterAll, describe, expect, test } from "vitest";

import { type SampleRequest, defaultSampling, type SamplingParams } from "../../core/engine.ts";
import { AttributedError, ConfigurationError } from "../../core/failure.ts";
import type { ScoreRequest } from "../../core/scoring.ts";
import { TokenBuffer } from "../../core/token-buffer.ts";
import { parameterLayout } from "../../learner/model/index.ts";
import { engineConformance } from "../../testing/index.ts";
import { testConfig, testPrompt, testWeights } from "./embedded.test-helper.ts";
import { createEmbeddedEngine, type EmbeddedEngineOptions } from "./embedded-engine.ts";

const checkpoint = { config: testConfig, weights: testWeights(3) };

function make(options: Partial<EmbeddedEngineOptions> = {}) {
  return createEmbeddedEngine({ checkpoint, threads: 2, cacheTokens: 4096, weightVersion: "v1", seed: 5, ...options });
}

function request(prompt: ArrayLike<number>, sampling: Partial<SamplingParams> = {}, requestId = "r"): SampleRequest {
  return {
    prompt: TokenBuffer.from(prompt),
    sampling: { ...defaultSampling, maxNewTokens: 10, seed: 1, ...sampling },
    stopTokenIds: [],
    requestId,
    routingKey: null,
  };
}

const codeOf = async (call: Promise<unknown>): Promise<string> => {
  const error: unknown = await call.catch((reason: unknown) => reason);
  return error instanceof AttributedError ? error.failure.code : `no failure: ${JSON.stringify(error)}`;
};

/** A generation longer than any test waits. */
const endless = { maxNewTokens: 250 } as const;

describe("createEmbeddedEngine() keeps the contract of engines", () => {
  const checks = engineConformance({
    unscripted: "a model says what it says",
    uncontrolled: null,
    unscored: null,
    impossible: {},
    promptIds: [1, 2, 3],
    streams: true,
    open: async () => {
      const engine = make();
      return { engine, control: engine, begun: async () => {}, close: async () => {} };
    },
  });
  test.for(checks)("$name", async (check, { skip }) => {
    if (check.skip !== null) skip(check.skip);
    await check.run();
  });
});

describe("createEmbeddedEngine()", () => {
  const engine = make();
  afterAll(() => engine.close());

  test("tells tokens before the answer is whole, and none of a call that was cancelled", async () => {
    const controller = new AbortController();
    const told: number[] = [];
    const onTokens = (tokens: Uint32Array): void => {
      told.push(...tokens);
      controller.abort();
    };
    const long = request(testPrompt(4, 1), { maxNewTokens: 100 });
    expect(await codeOf(engine.sample(long, { onTokens, signal: controller.signal }))).toBe("cancelled");
    await engine.sample(request(testPrompt(4, 2)));
    expect(told).toHaveLength(1);
  });

  test("ends with the token that completes a stop string, and tells and counts none behind it", async () => {
    const long = request(testPrompt(4, 1), { maxNewTokens: 200 });
    const whole = await engine.sample(long);
    const at = 30;
    const seen: number[] = [];
    const watch = () => {
      seen.length = 0;
      return (id: number) => (seen.push(id) === at ? "END" : null);
    };
    const told: number[] = [];
    const onTokens = (tokens: Uint32Array): void => void told.push(...tokens);
    for (const options of [{}, { onTokens }]) {
      const stopped = await engine.sample({ ...long, stopStrings: { strings: ["END"], watch } }, options);
      expect([...stopped.sampledTokens]).toEqual([...whole.sampledTokens.subarray(0, at)]);
      expect([...stopped.logprobs!]).toEqual([...whole.logprobs!.subarray(0, at)]);
      expect(stopped.finish).toEqual({ reason: "stop", matched: "END", raw: null });
      expect(stopped.weightSpans).toEqual([{ tokenCount: at, dispatch: "v1", reply: "v1" }]);
      expect(stopped.usage.completionTokens).toBe(at);
    }
    expect(told).toEqual([...whole.sampledTokens.subarray(0, at)]);
    // The next call gets the freed slot and samples the same tokens as before.
    expect((await engine.sample(long)).sampledTokens).toEqual(whole.sampledTokens);
  });

  test("gives the same answers with one thread and with two, alone and among others", async () => {
    const single = make({ threads: 1, maxSequences: 3 });
    const requests = Array.from({ length: 20 }, (_, index) =>
      request(testPrompt(1 + index * 5, index), { seed: index, temperature: index % 2 }),
    );
    const among = await Promise.all(requests.map((each) => engine.sample(each)));
    const alone = await Promise.all(requests.map((each) => single.sample(each)));
    expect(among.map(({ sampledTokens, logprobs }) => [sampledTokens, logprobs])).toEqual(
      alone.map(({ sampledTokens, logprobs }) => [sampledTokens, logprobs]),
    );
    await single.close();
  });

  test("weights that are not numbers are refused, and the ones before go on", async () => {
    const own = make();
    const { sampledTokens, logprobs } = await own.sample(request(testPrompt(9, 1)));
    const diverged = testWeights(3);
    diverged[17] = NaN;
    await expect(own.updateWeights(diverged, "v2")).rejects.toThrow("number 17 is NaN, expected finite numbers");
    expect(() => createEmbeddedEngine({ checkpoint: { config: testConfig, weights: diverged } })).toThrow("is NaN");
    expect(await own.sample(request(testPrompt(9, 1)))).toMatchObject({ sampledTokens, logprobs });
    await own.close();
  });

  // The final norm is the last parameter before the logits.
  const norm = parameterLayout(testConfig).finalNorm;
  test.each([
    ["all logits are 0", (weight: number) => weight * 1e30],
    ["the logit of token", (weight: number, at: number) => (at >= norm && at < norm + 32 ? weight * 1.5e38 : weight)],
  ])("logits that overflowed fail the call instead of a guess among all tokens: %s", async (problem, overflow) => {
    const own = make();
    await own.updateWeights(testWeights(3).map(overflow), "v2");
    const error: unknown = await own.sample(request(testPrompt(9, 1))).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(AttributedError);
    expect((error as AttributedError).failure).toMatchObject({ code: "server-error", boundary: "engine" });
    expect((error as Error).message).toContain(`after 9 tokens ${problem}`);
    await own.updateWeights(testWeights(3), "v3");
    expect((await own.sample(request(testPrompt(9, 1)))).sampledTokens).toHaveLength(10);
    await own.close();
  });

  test("differs by seed, and without one by call", async () => {
    const answers = async (seed: number | null): Promise<string> =>
      (await engine.sample(request([1, 2, 3], { seed }))).sampledTokens.join();
    expect(await answers(1)).toBe(await answers(1));
    expect(await answers(2)).not.toBe(await answers(1));
    expect(await answers(null)).not.toBe(await answers(null));
  });

  test("serves the turns of an episode from the cache of one thread", async () => {
    const prompt = TokenBuffer.from(testPrompt(40, 77));
    let known = 0;
    for (let turn = 0; turn < 3; turn++) {
      const { sampledTokens, usage } = await engine.sample({ ...request([]), prompt, routingKey: "episode" });
      expect(usage).toEqual({ promptTokens: prompt.length, completionTokens: 10, cachedTokens: known });
      known = prompt.length + sampledTokens.length - 1;
      prompt.append(sampledTokens);
      prompt.append(testPrompt(5, turn));
    }
  });

  test.each<[string, SampleRequest, string]>([
    ["no prompt", request([]), "bad-request"],
    ["ids that it does not know", request([1, 64]), "bad-request"],
    ["a prompt as long as the context", request(testPrompt(256, 1)), "context-length"],
    ["a negative temperature", request([1], { temperature: -1 }), "bad-request"],
    ["a parameter that it does not know", request([1], { extra: { regex: "a" } }), "bad-request"],
  ])("refuses %s", async (_, asked, code) => {
    expect(await codeOf(engine.sample(asked))).toBe(code);
  });

  test("ends with length where the context ends", async () => {
    const { finish, sampledTokens } = await engine.sample(request(testPrompt(250, 1), { maxNewTokens: null }));
    expect([finish.reason, sampledTokens.length]).toEqual(["length", 6]);
  });

  test("knows SGLang's further parameters", async () => {
    const extra = { logit_bias: { 7: 1000 }, min_new_tokens: 3 };
    const { sampledTokens } = await engine.sample({ ...request([1], { extra }), stopTokenIds: [7] });
    expect([...sampledTokens].slice(0, 2)).not.toContain(7);
    expect(sampledTokens[3] ?? sampledTokens.at(-1)).toBe(7);
  });

  test("a cancelled call rejects at once, and abort() ends a call with what it has", async () => {
    const controller = new AbortController();
    const running = engine.sample(request([1], endless, "one"), { signal: controller.signal });
    const ended = engine.sample(request([2], endless, "two"));
    await engine.pause("in-place");
    await engine.abort("two");
    controller.abort();
    expect(await codeOf(running)).toBe("cancelled");
    const { finish, sampledTokens, logprobs } = await ended;
    expect(finish.reason).toBe("abort");
    expect(logprobs).toHaveLength(sampledTokens.length);
    await engine.continue();
  });

  test.each(["in-place", "retract"] as const)(
    "pause() in mode %s holds calls, and continue() changes nothing of them",
    async (mode) => {
      const wanted = await engine.sample(request([3], endless));
      const running = engine.sample(request([3], endless));
      await engine.pause(mode);
      const held = engine.sample(request([4]));
      await engine.flushCache();
      await engine.continue();
      expect((await running).sampledTokens).toEqual(wanted.sampledTokens);
      expect((await held).sampledTokens).toHaveLength(10);
    },
  );

  test("pause() in mode abort ends what runs and lets others wait", async () => {
    const running = engine.sample(request([3], endless));
    await engine.pause("abort");
    expect((await running).finish.reason).toBe("abort");
    const held = engine.sample(request([4]));
    await engine.continue();
    expect((await held).finish.reason).toBe("length");
  });
});

describe("updateWeights()", () => {
  test("takes effect on every thread, and calls under way name both versions", async () => {
    const engine = make();
    const other = make({ checkpoint: { config: testConfig, weights: testWeights(8) }, weightVersion: "v2" });
    const running = engine.sample(request([5, 6], endless));
    await engine.pause("in-place");
    const weights = testWeights(8);
    const update = engine.updateWeights(weights, "v2");
    await engine.continue();
    await update;
    expect(await engine.weightVersion()).toBe("v2");
    const { weightSpans, sampledTokens } = await running;
    expect(weightSpans.at(-1)).toMatchObject({ dispatch: "v2", reply: "v2" });
    expect(weightSpans.reduce((sum, { tokenCount }) => sum + tokenCount, 0)).toBe(sampledTokens.length);
    for (let call = 0; call < 4; call++) {
      const asked = request(testPrompt(30, call));
      expect((await engine.sample(asked)).sampledTokens).toEqual((await other.sample(asked)).sampledTokens);
    }
    await Promise.all([engine.close(), other.close()]);
  });

  test("refuses weights of another shape", async () => {
    const engine = make({ threads: 1 });
    await expect(engine.updateWeights(new Float32Array(3), "v2")).rejects.toThrow("there are 3");
    await engine.close();
  });
});

describe("close()", () => {
  test("rejects what is under way and what comes", async () => {
    const engine = make();
    const running = codeOf(engine.sample(request([1], endless)));
    expect(await engine.health()).toBe(true);
    await engine.pause("in-place");
    await engine.close();
    expect(await running).toBe("cancelled");
    expect(await codeOf(engine.sample(request([1])))).toBe("cancelled");
    expect(await engine.health()).toBe(false);
  });
});

test("options out of range are refused before a thread starts", () => {
  expect(() => make({ threads: 0 })).toThrow(ConfigurationError);
  expect(() => make({ maxSequences: 1.5 })).toThrow("maxSequences is 1.5, expected an integer from 1 to 1024");
});

describe("score()", () => {
  const engine = make();
  afterAll(() => engine.close());
  const tokens = testPrompt(200, 31);
  const call = (change: Partial<ScoreRequest> = {}): ScoreRequest => ({
    tokens,
    from: 100,
    topTokens: 3,
    requestId: "s",
    routingKey: null,
    ...change,
  });

  test("gives the logprobs that sampling reported, without a copy of the caller's tokens", async () => {
    const generation = await engine.sample(request(tokens.subarray(0, 100), { maxNewTokens: 20 }));
    const given = Uint32Array.of(...tokens.subarray(0, 100), ...generation.sampledTokens);
    const scoring = engine.score(call({ tokens: given }));
    given.fill(0);
    const { logprobs, weightVersion } = await scoring;
    expect(weightVersion).toBe("v1");
    logprobs.forEach((logprob, at) => expect(Math.abs(logprob - generation.logprobs![at]!)).toBeLessThan(1e-4));
  });

  test("is the same however many calls run at a time", async () => {
    const alone = await engine.score(call());
    const all = await Promise.all(Array.from({ length: 12 }, (_, at) => engine.score(call({ requestId: `s${at}` }))));
    for (const one of all) expect(one).toEqual(alone);
  });

  test("refuses what it cannot score, and a call that was cancelled", async () => {
    expect(await codeOf(engine.score(call({ from: 0 })))).toBe("bad-request");
    expect(await codeOf(engine.score(call({ topTokens: 65 })))).toBe("bad-request");
    expect(await codeOf(engine.score(call({ tokens: Uint32Array.of(1, 64), from: 1 })))).toBe("bad-request");
    expect(await codeOf(engine.score(call({ tokens: testPrompt(257, 1) })))).toBe("context-length");
    expect(await codeOf(engine.score(call(), { signal: AbortSignal.abort() }))).toBe("cancelled");
    const controller = new AbortController();
    const scoring = codeOf(engine.score(call(), { signal: controller.signal }));
    controller.abort();
    expect(await scoring).toBe("cancelled");
    const aborted = codeOf(engine.score(call({ requestId: "gone" })));
    await engine.abort("gone");
    // The small model may have scored everything before it reads of the abort.
    expect(await aborted).toMatch(/^(?:cancelled$|no failure: )/);
    // A context that is full can be scored: nothing is sampled after it.
    expect((await engine.score(call({ tokens: testPrompt(256, 1) }))).logprobs).toHaveLength(156);
  });
});
