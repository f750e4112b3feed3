import { describe, expect, test } from "vitest";

import { type SampleRequest, defaultSampling, type SamplingParams } from "../../core/engine.ts";
import { AttributedError } from "../../core/failure.ts";
import type { ScoreRequest } from "../../core/scoring.ts";
import { TokenBuffer } from "../../core/token-buffer.ts";
import { engineConformance } from "../../testing/index.ts";
import { FakeLlama, logitsAfter, vocabularySize } from "./fake-llama.test-helper.ts";
import { createLlamaCppEngine, type LlamaCppEngineOptions } from "./llama-cpp-engine.ts";
import { installCommand, loadLlamaLibrary } from "./llama-library.ts";

/** Any file: the stand-in does not read it. */
const modelPath = import.meta.filename;

const open = (options: Partial<LlamaCppEngineOptions> = {}, fake = new FakeLlama()) =>
  createLlamaCppEngine({ modelPath, library: fake.library, sequences: 2, seed: 5, ...options });

function request(prompt: ArrayLike<number>, sampling: Partial<SamplingParams> = {}, requestId = "r"): SampleRequest {
  return {
    prompt: TokenBuffer.from(prompt),
    sampling: { ...defaultSampling, maxNewTokens: 8, seed: 1, ...sampling },
    stopTokenIds: [],
    requestId,
    routingKey: null,
  };
}

const testPrompt = (length: number): number[] => Array.from({ length }, () => 1);

const codeOf = async (call: Promise<unknown>): Promise<string> => {
  const error: unknown = await call.catch((reason: unknown) => reason);
  return error instanceof AttributedError ? error.failure.code : `no failure: ${JSON.stringify(error)}`;
};

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
};

describe("createLlamaCppEngine() keeps the contract of engines", () => {
  const checks = engineConformance({
    unscripted: "a model says what it says",
    uncontrolled: "weights are never changed",
    unscored: null,
    impossible: {},
    promptIds: [1, 2, 3],
    streams: true,
    open: async () => ({
      engine: await open(),
      control: null,
      begun: async () => {},
      close: async () => {},
    }),
  });
  test.for(checks)("$name", async (check, { skip }) => {
    if (check.skip !== null) skip(check.skip);
    await check.run();
  });
});

describe("createLlamaCppEngine()", () => {
  test("ends with the token that completes a stop string", async () => {
    const engine = await open();
    const whole = await engine.sample(request([1, 2, 3]));
    let count = 0;
    const stopStrings = { strings: ["END"], watch: () => () => (++count === 3 ? "END" : null) };
    const stopped = await engine.sample({ ...request([1, 2, 3]), stopStrings });
    expect([...stopped.sampledTokens]).toEqual([...whole.sampledTokens.subarray(0, 3)]);
    expect(stopped.finish).toEqual({ reason: "stop", matched: "END", raw: null });
    expect(stopped.usage.completionTokens).toBe(3);
    await engine.close();
  });

  test("loads an adapter with the context, and none without one", async () => {
    const fake = new FakeLlama();
    await (await open({}, fake)).close();
    expect(fake.contextOptions).not.toHaveProperty("lora");
    await (await open({ adapterPath: import.meta.filename }, fake)).close();
    expect(fake.contextOptions["lora"]).toEqual({ adapters: [{ filePath: import.meta.filename }] });
    await expect(open({ adapterPath: "nowhere.gguf" }, fake)).rejects.toThrow("there is no such file");
  });

  test("says how the package is installed when it is missing, without the packages for graphics cards", async () => {
    await expect(loadLlamaLibrary("node-llama-cpp-nowhere")).rejects.toThrow(
      `Cannot use llama.cpp through the package "node-llama-cpp-nowhere": it is not installed; run "${installCommand()}".`,
    );
    expect(installCommand("linux-x64")).toBe(
      "npm install --omit=optional node-llama-cpp@3 @node-llama-cpp/linux-x64@3",
    );
    expect(installCommand("sunos-sparc")).toBe("npm install node-llama-cpp@3");
    await expect(loadLlamaLibrary("node:path")).rejects.toThrow("it has no getLlama");
  });

  test.each<[string, Partial<LlamaCppEngineOptions>, string]>([
    ["a file that is not there", { modelPath: "nowhere.gguf" }, "there is no such file"],
    ["a folder", { modelPath: import.meta.dirname }, "it is not a file"],
    ["no sequences", { sequences: 0 }, "sequences is 0, expected an integer from 1 to 256"],
    ["a context of one", { contextTokens: 1 }, "contextTokens is 1"],
    ["half a thread", { threads: 0.5 }, "threads is 0.5"],
  ])("refuses %s", async (_, options, wanted) => {
    await expect(open(options)).rejects.toMatchObject({
      name: "ConfigurationError",
      message: expect.stringContaining(wanted) as string,
    });
  });

  test("says how the package is installed again when its build does not load", async () => {
    const library = { getLlama: () => Promise.reject(new Error("NoBinaryFoundError")) };
    await expect(open({ library })).rejects.toMatchObject({
      name: "ConfigurationError",
      message: expect.stringContaining(`does not load (NoBinaryFoundError); run "${installCommand()}"`) as string,
    });
  });

  test("says what is wrong with a model, and leaves nothing open", async () => {
    const fake = new FakeLlama();
    fake.loadFault = new Error("Invalid GGUF magic.");
    await expect(open({}, fake)).rejects.toMatchObject({
      name: "ConfigurationError",
      message: expect.stringContaining("with llama.cpp: Invalid GGUF magic; use a GGUF file") as string,
    });
    expect(fake.disposed).toEqual(["llama"]);
  });

  test.each<[string, SampleRequest, string]>([
    ["no prompt", request([]), "bad-request"],
    ["ids that it does not know", request([1, 32]), "bad-request"],
    ["a prompt as long as the context", request(testPrompt(64)), "context-length"],
    ["a parameter that it does not know", request([1], { extra: { regex: "a" } }), "bad-request"],
  ])("refuses %s", async (_, asked, code) => {
    const engine = await open({ contextTokens: 64 });
    expect(await codeOf(engine.sample(asked))).toBe(code);
    await engine.close();
  });
});

describe("sample()", () => {
  test.each([{ temperature: 1 }, { temperature: 0.5, topK: 3 }, { temperature: 2, topP: 0.4, minP: 0.1 }])(
    "reports logprobs after temperature and before truncation, with %j",
    async (sampling) => {
      const engine = await open();
      const prompt = [4, 9, 2];
      const { sampledTokens, logprobs } = await engine.sample(request(prompt, sampling));
      const before = [...prompt];
      sampledTokens.forEach((token, at) => {
        const scaled = logitsAfter(before).map((logit) => logit / sampling.temperature);
        const sum = scaled.reduce((total, logit) => total + Math.exp(logit), 0);
        expect(logprobs?.[at]).toBeCloseTo(scaled[token]! - Math.log(sum), 4);
        const rank = scaled.filter((logit) => logit > scaled[token]!).length;
        if (sampling.topK !== undefined) expect(rank).toBeLessThan(sampling.topK);
        before.push(token);
      });
      expect(sampledTokens).toHaveLength(8);
      await engine.close();
    },
  );

  test("is greedy at temperature 0, and ends at a stop token", async () => {
    const engine = await open();
    const { sampledTokens } = await engine.sample(request([4], { temperature: 0 }));
    const before = [4];
    for (const token of sampledTokens) {
      const logits = logitsAfter(before);
      expect(token).toBe(logits.indexOf(Math.max(...logits)));
      before.push(token);
    }
    const stop = sampledTokens[2]!;
    const first = sampledTokens.indexOf(stop);
    const stopped = await engine.sample({ ...request([4], { temperature: 0 }), stopTokenIds: [stop] });
    expect([...stopped.sampledTokens]).toEqual([...sampledTokens.subarray(0, first + 1)]);
    expect(stopped.finish).toEqual({ reason: "stop", matched: stop, raw: null });
    await engine.close();
  });

  test("gives the same answers alone and among others, from a cache and without one", async () => {
    const fake = new FakeLlama();
    const [many, one] = [await open({ sequences: 4 }, fake), await open({ sequences: 1 })];
    const requests = Array.from({ length: 12 }, (_, at) =>
      request([1, 2, 3, ...(at % 2 === 0 ? [4] : []), at], { seed: at, temperature: at % 3 }),
    );
    const among = await Promise.all(requests.map((each) => many.sample(each)));
    const alone = await Promise.all(requests.map((each) => one.sample(each)));
    expect(among.map(({ sampledTokens, logprobs }) => [sampledTokens, logprobs])).toEqual(
      alone.map(({ sampledTokens, logprobs }) => [sampledTokens, logprobs]),
    );
    expect(fake.mostRunning).toBe(4);
    expect(alone.at(-1)?.usage.cachedTokens).toBe(3);
    await Promise.all([many.close(), one.close()]);
  });

  test("serves the turns of an episode from its own sequence, whatever others do meanwhile", async () => {
    const fake = new FakeLlama();
    const engine = await open({}, fake);
    const prompt = TokenBuffer.from([3, 1, 4, 1, 5]);
    let known = 0;
    for (let turn = 0; turn < 3; turn++) {
      const { sampledTokens, usage } = await engine.sample({ ...request([]), prompt, routingKey: "episode" });
      expect(usage).toEqual({ promptTokens: prompt.length, completionTokens: 8, cachedTokens: known });
      known = prompt.length + sampledTokens.length - 1;
      prompt.append(sampledTokens);
      prompt.append([turn, 7]);
      for (const id of [8, 9]) await engine.sample({ ...request([9, id, turn]), routingKey: "other" });
    }
    expect(fake.cleared).toBe(0);
    await engine.close();
  });

  test("computes the beginning that prompts share once, whoever else is still computing it", async () => {
    const fake = new FakeLlama();
    const engine = await open({ sequences: 4 }, fake);
    const shared = Array.from({ length: 100 }, (_, at) => at % 30);
    const ask = (own: number) => request([...shared, own, own], { maxNewTokens: 2 }, `r${own}`);
    const release = fake.hold();
    const calls = [1, 2, 3, 4].map((own) => engine.sample({ ...ask(own), routingKey: `episode-${own}` }));
    await turns();
    release();
    const results = await Promise.all(calls);
    expect(results.map(({ usage }) => usage.cachedTokens)).toEqual([0, 100, 100, 100]);
    expect(fake.copied).toEqual([100, 100, 100]);
    const alone = await open({ sequences: 1 });
    for (const [at, { sampledTokens }] of results.entries()) {
      expect((await alone.sample(ask(at + 1))).sampledTokens).toEqual(sampledTokens);
    }
    await Promise.all([engine.close(), alone.close()]);
  });

  test("gives a new episode the sequence of one that has ended, and no other's", async () => {
    const engine = await open({ sequences: 2 });
    const turn = async (key: string, prompt: number[]) =>
      (await engine.sample({ ...request(prompt, { maxNewTokens: 1 }), routingKey: key })).usage.cachedTokens;
    expect(engine.mostEpisodes).toBe(2);
    await turn("a", [1, 2, 3]);
    await turn("b", [4, 5, 6]);
    engine.endEpisode("b");
    // Without that, the sequence that is idle longest would be taken: that of "a".
    expect(await turn("c", [7, 8, 9])).toBe(0);
    expect(await turn("a", [1, 2, 3, 1])).toBe(3);
    await engine.close();
  });

  test("an aborted call does not wait for a beginning, and the others get it", async () => {
    const fake = new FakeLlama();
    const engine = await open({ sequences: 3 }, fake);
    const shared = Array.from({ length: 100 }, (_, at) => at % 30);
    const release = fake.hold();
    const [first, second, third] = [1, 2, 3].map((own) => engine.sample(request([...shared, own], {}, `r${own}`)));
    await turns();
    await engine.abort("r2");
    expect((await second!).finish.reason).toBe("abort");
    release();
    expect([(await first!).usage.cachedTokens, (await third!).usage.cachedTokens]).toEqual([0, 100]);
    await engine.close();
  });

  test("no other call computes while a beginning is copied, so that the library's lock becomes free", async () => {
    const fake = new FakeLlama();
    const engine = await open({ sequences: 3 }, fake);
    const shared = Array.from({ length: 100 }, (_, at) => at % 30);
    let letGo: () => void = () => undefined;
    fake.copyGate = new Promise((resolve) => {
      letGo = resolve;
    });
    const calls = [
      [...shared, 1],
      [...shared, 2],
      [3, 3],
    ].map((prompt, at) => engine.sample(request(prompt, { maxNewTokens: 200 }, `r${at}`)));
    while (fake.copied.length === 0) await Promise.resolve();
    await turns();
    const computed = fake.evaluated.length;
    for (let step = 0; step < 10; step++) await turns();
    expect(fake.evaluated.length).toBe(computed);
    letGo();
    await Promise.all(calls);
    expect(fake.evaluated.length).toBeGreaterThan(computed);
    await engine.close();
  });

  test("computes what it cannot copy", async () => {
    const fake = new FakeLlama();
    fake.canCopy = false;
    const engine = await open({}, fake);
    const shared = Array.from({ length: 100 }, (_, at) => at % 30);
    const results = await Promise.all([1, 2].map((own) => engine.sample(request([...shared, own]))));
    expect(results.map(({ usage }) => usage.cachedTokens)).toEqual([0, 0]);
    await engine.close();
  });

  test("computes the last token of a prompt that is in the cache as a whole", async () => {
    const engine = await open({ sequences: 1 });
    const wanted = await engine.sample(request([1, 2, 3]));
    const again = await engine.sample(request([1, 2, 3]));
    expect(again.sampledTokens).toEqual(wanted.sampledTokens);
    expect(again.usage.cachedTokens).toBe(2);
    await engine.close();
  });

  test("ends with length where the context ends", async () => {
    const engine = await open({ contextTokens: 16 });
    const { finish, sampledTokens } = await engine.sample(request([1, 2, 3, 4, 5, 6], { maxNewTokens: null }));
    expect([finish.reason, sampledTokens.length]).toEqual(["length", 10]);
    await engine.close();
  });

  test("a fault of the library is a failure that may be tried again, and the next call begins anew", async () => {
    const fake = new FakeLlama();
    const engine = await open({ sequences: 1 }, fake);
    const wanted = await engine.sample(request([1, 2, 3]));
    fake.fault = new Error("no memory");
    const error: unknown = await engine.sample(request([1, 2, 3])).catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      message: "Cannot sample from llama.cpp: it failed (no memory).",
      failure: { boundary: "engine", code: "server-error", retryable: true },
    });
    expect((await engine.sample(request([1, 2, 3]))).sampledTokens).toEqual(wanted.sampledTokens);
    expect(fake.cleared).toBe(1);
    await engine.close();
  });
});

describe("abort() and signals", () => {
  test("abort() ends a call with what it has, and one that waits with nothing", async () => {
    const fake = new FakeLlama();
    const engine = await open({ sequences: 1 }, fake);
    const release = fake.hold();
    const running = engine.sample(request([1, 2], {}, "running"));
    const waiting = engine.sample(request([3], {}, "waiting"));
    await turns();
    await engine.abort("unknown");
    await engine.abort("waiting");
    expect(await waiting).toMatchObject({ finish: { reason: "abort" }, logprobs: new Float32Array(), weightSpans: [] });
    await engine.abort("running");
    release();
    const { finish, sampledTokens, weightSpans } = await running;
    expect(finish.reason).toBe("abort");
    expect(sampledTokens).toHaveLength(1);
    expect(weightSpans).toEqual([{ tokenCount: 1, dispatch: null, reply: null }]);
    await engine.close();
  });

  test("looks for an abort between the parts of a long prompt", async () => {
    const fake = new FakeLlama();
    const engine = await open({}, fake);
    const release = fake.hold();
    const running = engine.sample(request(testPrompt(900)));
    await turns();
    await engine.abort("r");
    release();
    expect((await running).sampledTokens).toHaveLength(0);
    expect(fake.evaluated).toEqual([512]);
    await engine.close();
  });

  test("a cancelled call rejects at once, and its sequence is free when the library answers", async () => {
    const fake = new FakeLlama();
    const engine = await open({ sequences: 1 }, fake);
    const release = fake.hold();
    const controller = new AbortController();
    const running = engine.sample(request([1]), { signal: controller.signal });
    await turns();
    controller.abort();
    expect(await codeOf(running)).toBe("cancelled");
    const next = engine.sample(request([2]));
    release();
    expect((await next).sampledTokens).toHaveLength(8);
    await engine.close();
  });

  test("close() waits for the library, rejects what is under way and what comes, and frees all of it", async () => {
    const fake = new FakeLlama();
    const engine = await open({ sequences: 1 }, fake);
    const release = fake.hold();
    const calls = [codeOf(engine.sample(request([1]))), codeOf(engine.sample(request([2])))];
    await turns();
    const closed = engine.close();
    await turns();
    expect(fake.disposed).toEqual([]);
    release();
    await closed;
    await engine.close();
    expect(await Promise.all(calls)).toEqual(["cancelled", "cancelled"]);
    expect(fake.disposed).toEqual(["context", "model", "llama"]);
    expect(await codeOf(engine.sample(request([1])))).toBe("cancelled");
  });
});

describe("score()", () => {
  const tokens = Uint32Array.from({ length: 150 }, (_, at) => (at * 7) % vocabularySize);
  const call = (change: Partial<ScoreRequest> = {}): ScoreRequest => ({
    tokens,
    from: 20,
    topTokens: 2,
    requestId: "s",
    routingKey: null,
    ...change,
  });

  /** log softmax of the logits after the first `length` tokens. */
  function logprobsAfter(length: number): number[] {
    const logits = logitsAfter([...tokens.subarray(0, length)]);
    const sum = Math.log(logits.reduce((total, logit) => total + Math.exp(logit), 0));
    return logits.map((logit) => logit - sum);
  }

  test("equals the model's distribution at every token", async () => {
    const engine = await open();
    const { logprobs, top } = await engine.score(call());
    expect(logprobs).toHaveLength(130);
    for (const [at, logprob] of logprobs.entries()) {
      const expected = logprobsAfter(20 + at);
      expect(logprob).toBeCloseTo(expected[tokens[20 + at]!]!, 5);
      const best = [...expected.keys()].sort((a, b) => expected[b]! - expected[a]!);
      expect([...top!.ids.subarray(at * 2, at * 2 + 2)]).toEqual(best.slice(0, 2));
      expect(top!.logprobs[at * 2]).toBeCloseTo(expected[best[0]!]!, 5);
    }
    await engine.close();
  });

  test("keeps the beginning in the cache, and leaves it to the next call", async () => {
    const fake = new FakeLlama();
    const engine = await open({ sequences: 1 }, fake);
    const first = await engine.score(call({ from: 120 }));
    const before = fake.evaluated.reduce((sum, count) => sum + count, 0);
    expect(await engine.score(call({ from: 120 }))).toEqual(first);
    expect(fake.evaluated.reduce((sum, count) => sum + count, 0) - before).toBe(30);
    const sampled = await engine.sample(request(tokens));
    expect(sampled.usage.cachedTokens).toBe(149);
    await engine.close();
  });

  test("refuses what it cannot score, and ends early when it is cancelled", async () => {
    const fake = new FakeLlama();
    const engine = await open({}, fake);
    expect(await codeOf(engine.score(call({ from: 150 })))).toBe("bad-request");
    expect(await codeOf(engine.score(call({ topTokens: vocabularySize + 1 })))).toBe("bad-request");
    const release = fake.hold();
    const controller = new AbortController();
    const cancelled = codeOf(engine.score(call(), { signal: controller.signal }));
    await turns();
    controller.abort();
    expect(await cancelled).toBe("cancelled");
    release();
    await turns();
    fake.fault = new Error("out of memory");
    const failed = await engine.score(call()).catch((error: unknown) => error);
    expect(failed).toMatchObject({ failure: { code: "server-error", retryable: true } });
    expect((await engine.score(call())).logprobs).toHaveLength(130);
    await engine.close();
  });
});
