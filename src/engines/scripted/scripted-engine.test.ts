import { describe, expect, test } from "vitest";
import { AttributedError, ConfigurationError } from "../../core/failure.ts";
import { type SampleRequest, defaultSampling } from "../../core/engine.ts";
import { TokenBuffer } from "../../core/token-buffer.ts";
import { createManualClock } from "../../lib/clock.test-helper.ts";
import { engineConformance } from "../../testing/index.ts";
import { createReadableTokenizer } from "../../tokenizers/index.ts";
import { createScriptedEngine, type ScriptedAnswer } from "./scripted-engine.ts";

function request(requestId = "r", maxNewTokens: number | null = 64): SampleRequest {
  const sampling = { ...defaultSampling, maxNewTokens };
  return { prompt: TokenBuffer.from([1, 2, 3]), sampling, stopTokenIds: [9], requestId, routingKey: null };
}

async function codeOf(call: Promise<unknown>): Promise<string> {
  const error: unknown = await call.catch((reason: unknown) => reason);
  return error instanceof AttributedError ? error.failure.code : "no failure";
}

describe("createScriptedEngine() keeps the contract of engines", () => {
  const checks = engineConformance({
    unscripted: null,
    uncontrolled: null,
    impossible: {},
    promptIds: [1, 2, 3],
    streams: true,
    open: async (behaviours) => {
      const script: readonly ScriptedAnswer[] = behaviours;
      const engine = createScriptedEngine({ script: (_asked, { call }) => script[call] ?? [4, 9] });
      // A call takes its step before its promise is returned.
      return { engine, control: engine, begun: () => Promise.resolve(), close: () => Promise.resolve() };
    },
  });
  test.for(checks)("$name", async (check, { skip }) => {
    if (check.skip !== null) skip(check.skip);
    await check.run();
  });
});

describe("createScriptedEngine()", () => {
  test("plays its steps in the order of the calls, whatever the order of the answers", async () => {
    const clock = createManualClock();
    const script = [{ type: "reply", tokens: [1, 9], delayMs: 20 } as const, [2, 9], new Uint32Array([3, 9])];
    const engine = createScriptedEngine({ script, clock });
    const answers = Promise.all(["a", "b", "c"].map((id) => engine.sample(request(id))));
    await clock.advance(20);
    expect((await answers).map((result) => result.sampledTokens[0])).toEqual([1, 2, 3]);
    engine.verifyDone();
    expect(engine.requests.map((asked) => [asked.requestId, [...asked.prompt]])).toEqual(
      ["a", "b", "c"].map((id) => [id, [1, 2, 3]]),
    );
  });

  test("asks a function what to play", async () => {
    const engine = createScriptedEngine({ script: ({ prompt }, { call }) => [prompt.length, call] });
    await engine.sample(request());
    expect([...(await engine.sample(request())).sampledTokens]).toEqual([3, 1]);
    expect(engine.requests).toEqual([]);
    engine.verifyDone();
  });

  test("an unexpected call rejects, and the script is not done", async () => {
    const engine = createScriptedEngine({ script: [[9]] });
    await engine.sample(request());
    expect(await codeOf(engine.sample(request()))).toBe("bad-request");
    expect(() => engine.verifyDone()).toThrow("call 2 has no step, the script has 1; give it one more step");
  });

  test("steps that nobody asked for are not done", () => {
    const engine = createScriptedEngine({ script: [[9], [9]] });
    expect(() => engine.verifyDone()).toThrow("2 of 2 steps were never used");
  });

  test("text becomes ids by the tokenizer, and is refused without one before anything is played", async () => {
    const tokenizer = createReadableTokenizer();
    const engine = createScriptedEngine({ script: ["Hello<|im_end|>"], tokenizer });
    const { sampledTokens } = await engine.sample(request());
    expect(tokenizer.decode(sampledTokens)).toBe("Hello<|im_end|>");
    expect(() => createScriptedEngine({ script: ["Hello"] })).toThrow(ConfigurationError);
    const late = createScriptedEngine({ script: () => "Hello" });
    expect(await codeOf(late.sample(request()))).toBe("server-error");
  });

  test.each<[string, ScriptedAnswer, number | null, object]>([
    ["a reply that ends with a stop token", [5, 9], 64, { finish: { reason: "stop", matched: 9 } }],
    ["a reply that does not", [5, 6], 64, { finish: { reason: "length", matched: null } }],
    [
      "a reply that says how it ended",
      { type: "reply", tokens: [5], finish: "stop" },
      64,
      { finish: { reason: "stop", matched: null } },
    ],
    [
      "a reply longer than asked for",
      [5, 6, 9],
      2,
      { sampledTokens: Uint32Array.of(5, 6), finish: { reason: "length" } },
    ],
    ["a reply without a bound", [5, 6, 9], null, { sampledTokens: Uint32Array.of(5, 6, 9) }],
    [
      "logprobs of its own",
      { type: "reply", tokens: [5, 9], logprobs: [-2, -3] },
      64,
      { logprobs: Float32Array.of(-2, -3) },
    ],
    ["no logprobs", { type: "reply", tokens: [5, 9], logprobs: null }, 64, { logprobs: null }],
    [
      "cached tokens",
      { type: "reply", tokens: [9], cachedTokens: 2 },
      64,
      { usage: { promptTokens: 3, completionTokens: 1, cachedTokens: 2 } },
    ],
    ["an abort", { type: "abort", tokens: [5] }, 64, { sampledTokens: Uint32Array.of(5), finish: { reason: "abort" } }],
    ["an abort before the first token", { type: "abort" }, 64, { sampledTokens: new Uint32Array(0) }],
  ])("plays %s", async (_name, answer, maxNewTokens, shape) => {
    expect(await createScriptedEngine({ script: [answer] }).sample(request("r", maxNewTokens))).toMatchObject(shape);
  });

  test("ends with the token that completes a stop string, or at the bound before it", async () => {
    const stopStrings = { strings: ["END"], watch: () => (id: number) => (id === 7 ? "END" : null) };
    const engine = createScriptedEngine({ script: () => [5, 7, 6, 9] });
    const told: number[] = [];
    const onTokens = (tokens: Uint32Array): void => void told.push(...tokens);
    expect(await engine.sample({ ...request(), stopStrings }, { onTokens })).toMatchObject({
      sampledTokens: Uint32Array.of(5, 7),
      finish: { reason: "stop", matched: "END" },
    });
    expect(told).toEqual([5, 7]);
    expect(await engine.sample({ ...request("r", 1), stopStrings })).toMatchObject({
      sampledTokens: Uint32Array.of(5),
      finish: { reason: "length" },
    });
  });

  test("garbage follows from its seed and stays in the vocabulary", async () => {
    const garbage = (seed: number): ScriptedAnswer => ({ type: "garbage", count: 50, seed, vocabularySize: 30 });
    const engine = createScriptedEngine({ script: [garbage(1), garbage(1), garbage(2)] });
    const results = [await engine.sample(request()), await engine.sample(request()), await engine.sample(request())];
    const [first, again, other] = results.map((result) => [...result.sampledTokens]);
    expect(again).toEqual(first);
    expect(other).not.toEqual(first);
    expect(first?.every((id) => id < 30)).toBe(true);
  });

  test("a failure carries what its step says", async () => {
    const engine = createScriptedEngine({
      script: [
        { type: "failure", code: "overloaded", retryAfterMs: 1500 },
        { type: "failure", code: "server-error", retryable: false },
      ],
    });
    const first: unknown = await engine.sample(request()).catch((error: unknown) => error);
    expect(first).toMatchObject({ retryAfterMs: 1500, failure: { code: "overloaded", retryable: true } });
    const second: unknown = await engine.sample(request()).catch((error: unknown) => error);
    expect(second).toMatchObject({ failure: { code: "server-error", retryable: false } });
  });

  test("a delay waits on the clock, and ends with its request", async () => {
    const clock = createManualClock();
    const engine = createScriptedEngine({ script: () => ({ type: "reply", tokens: [9], delayMs: 1000 }), clock });
    const controller = new AbortController();
    const cancelled = codeOf(engine.sample(request("a"), { signal: controller.signal }));
    const aborted = engine.sample(request("b"));
    const kept = engine.sample(request("c"));
    await clock.advance(500);
    controller.abort();
    await engine.abort("b");
    expect(await cancelled).toBe("cancelled");
    expect((await aborted).finish.reason).toBe("abort");
    await clock.advance(500);
    expect((await kept).finish.reason).toBe("stop");
    expect(clock.sleeping).toBe(0);
  });

  test("hangs until it is aborted, and keeps the tokens so far", async () => {
    const engine = createScriptedEngine({ script: [{ type: "hang", tokens: [5, 6] }], weightVersion: "v1" });
    const hanging = engine.sample(request("a"));
    await engine.pause("abort");
    const result = await hanging;
    expect([...result.sampledTokens]).toEqual([5, 6]);
    expect(result.weightSpans).toEqual([{ tokenCount: 2, dispatch: "v1", reply: "v1" }]);
  });

  test.each(["abort", "retract", "in-place"] as const)(
    "pause() in mode %s holds calls until continue()",
    async (mode) => {
      const engine = createScriptedEngine({ script: [[9], [9]] });
      await engine.pause(mode);
      await engine.pause(mode);
      const controller = new AbortController();
      const cancelled = codeOf(engine.sample(request("a"), { signal: controller.signal }));
      const held = engine.sample(request("b"));
      controller.abort();
      expect(await cancelled).toBe("cancelled");
      await engine.continue();
      expect((await held).sampledTokens).toHaveLength(1);
    },
  );

  test("close() ends what is running", async () => {
    const engine = createScriptedEngine({ script: [{ type: "hang" }] });
    const hanging = codeOf(engine.sample(request()));
    await engine.close();
    expect(await hanging).toBe("cancelled");
  });
});
