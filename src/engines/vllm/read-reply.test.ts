import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { SampleResult } from "../../core/engine.ts";
import { AttributedError } from "../../core/failure.ts";
import { TokenBuffer } from "../../core/token-buffer.ts";
import type { FailureContext } from "../../http/index.ts";
import { RawText, vllmGarblings } from "../../testing/index.ts";
import { ChoiceFold, readReply, type ExpectedReply } from "./read-reply.ts";
import { vllmDialect } from "./vllm-engine.ts";

type Json = Readonly<Record<string, unknown>>;

const context: FailureContext = {
  what: "sample from vLLM",
  redact: (text) => text,
  hasApiKey: false,
  dialect: vllmDialect,
};
const expected: ExpectedReply = {
  prompt: TokenBuffer.from([1, 2, 3]),
  promptTokens: 3,
  stopTokenIds: [9],
  vocabularySize: 2000,
  maxTokens: 8,
  dispatchVersion: "v1",
};

/**
 * A valid reply of the token-id endpoint; `choice` and `body` replace fields, `undefined` removes
 * them.
 */
function generated(choice: Json = {}, body: Json = {}): Json {
  const content = [
    { token: "token_id:5", logprob: -0.5, bytes: null, top_logprobs: [] },
    { token: "token_id:9", logprob: -0.25, bytes: null, top_logprobs: [] },
  ];
  const whole = { index: 0, token_ids: [5, 9], finish_reason: "stop", logprobs: { content }, ...choice };
  const usage = { prompt_tokens: 3, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 1 } };
  return plain({ request_id: "r", choices: [whole], usage, ...body });
}

/** The same reply in the format of completions. */
function completed(choice: Json = {}, body: Json = {}): Json {
  const logprobs = { text_offset: [0, 1], token_logprobs: [-0.5, -0.25], tokens: ["token_id:5", "token_id:9"] };
  return generated({ text: "ab", stop_reason: 9, prompt_token_ids: [1, 2, 3], logprobs, ...choice }, body);
}

function plain(value: unknown): Json {
  return JSON.parse(JSON.stringify(value)) as Json;
}

const read = (value: unknown, change: Partial<ExpectedReply> = {}): SampleResult =>
  readReply(value, { ...expected, ...change }, { version: "v2", context });

type Verdict = { readonly code: string; readonly retryable: boolean; readonly message: string };

function verdict(action: () => unknown): Verdict {
  try {
    action();
  } catch (error) {
    if (error instanceof AttributedError) return error.failure;
    throw error;
  }
  return { code: "accepted", retryable: false, message: "" };
}

describe("readReply()", () => {
  test.each([
    ["the endpoint of ids", generated(), '{"finish_reason":"stop"}'],
    ["completions", completed(), '{"finish_reason":"stop","stop_reason":9}'],
    ["completions of old servers, ids in texts alone", completed({ token_ids: undefined }), ""],
    [
      "completions that write texts for tokens",
      completed({ logprobs: { tokens: ["a", "b"], token_logprobs: [-0.5, -0.25] } }),
      "",
    ],
  ])("reads tokens, logprobs, finish, weights and usage of %s", (_name, value, raw) => {
    const result = read(value);
    expect(result).toEqual({
      sampledTokens: Uint32Array.of(5, 9),
      logprobs: Float32Array.of(-0.5, -0.25),
      finish: { reason: "stop", matched: 9, raw: raw === "" ? result.finish.raw : raw },
      weightSpans: [{ tokenCount: 2, dispatch: "v1", reply: "v2" }],
      usage: { promptTokens: 3, completionTokens: 2, cachedTokens: 1 },
    });
  });

  test.each<[string, Json, Partial<ExpectedReply>, unknown]>([
    ["the stop token, which the endpoint of ids does not name", {}, {}, 9],
    ["nothing when the model's own end token was not asked for", {}, { stopTokenIds: [] }, null],
    ["a stop string", { stop_reason: "</x>" }, {}, "</x>"],
  ])("a stop matched %s", (_name, choice, change, matched) => {
    expect(read(generated(choice), change).finish).toMatchObject({ reason: "stop", matched });
  });

  test("the least logprob that vLLM writes is read", () => {
    expect(read(numbers([-0.5, -9999])).logprobs).toEqual(Float32Array.of(-0.5, -9999));
  });

  test("ids that look like texts, or texts that look like ids, decide nothing beside a list of ids", () => {
    const tokens = { tokens: ["token_id:7", "b"], token_logprobs: [-0.5, -0.25] };
    expect(read(completed({ logprobs: tokens })).sampledTokens).toEqual(Uint32Array.of(5, 9));
  });

  test.each([
    ["empty lists", { token_ids: [], logprobs: { content: [] } }],
    ["nulls", { token_ids: null, logprobs: null }],
    ["ids only", { token_ids: [], logprobs: null }],
    ["old servers' null content", { token_ids: [], logprobs: { content: null } }],
  ])("an abort before the first token is a result without tokens: %s", (_name, choice) => {
    const result = read(generated({ finish_reason: "abort", ...choice }));
    expect(result.sampledTokens).toHaveLength(0);
    expect(result.logprobs).toHaveLength(0);
    expect(result.finish).toMatchObject({ reason: "abort", matched: null });
  });

  test("an abort keeps its tokens, whatever the server counted", () => {
    const result = read(generated({ finish_reason: "abort" }, { usage: { prompt_tokens: 3, completion_tokens: 3 } }));
    expect(result.sampledTokens).toEqual(Uint32Array.of(5, 9));
  });

  const numbers = (token_logprobs: unknown): Json =>
    completed({ logprobs: { tokens: ["token_id:5", "token_id:9"], token_logprobs } });

  test.each<[string, unknown, string]>([
    ["null", null, "choices are missing"],
    ["text", "hello", "choices are missing"],
    ["a list", [generated()], "choices are missing"],
    ["no choice", generated({}, { choices: [] }), "0 choices"],
    ["a choice that is none", generated({}, { choices: [5] }), "is not an object"],
    ["no finish reason", generated({ finish_reason: null }), "finish_reason is missing"],
    ["an unknown finish reason", generated({ finish_reason: "tired" }), '"tired" is unknown'],
    ["a finish reason of another type", generated({ finish_reason: { type: "stop" } }), "is unknown"],
    ["ids without logprobs", generated({ logprobs: null }), "logprobs are missing"],
    ["logprobs that are not an object", generated({ logprobs: [] }), "logprobs is not an object"],
    ["logprobs without lists", generated({ logprobs: {} }), "no lists"],
    ["lists of two lengths", completed({ logprobs: { tokens: ["a"], token_logprobs: [-1, -1] } }), "1 tokens and 2"],
    ["a content that is not a list", generated({ logprobs: { content: "x" } }), "is not a list"],
    ["an entry that is not an object", generated({ logprobs: { content: [1, 2] } }), "token 0 is undefined"],
    ["ids that are not a list", generated({ token_ids: "5,9" }), "token_ids is not a list"],
    ["an id below zero", generated({ token_ids: [5, -1] }), "token_ids[1] is not a token id"],
    ["an id with a fraction", generated({ token_ids: [5.5, 9] }), "token_ids[0] is not a token id"],
    ["an id of 2^32", generated({ token_ids: [5, 2 ** 32] }), "token_ids[1] is not a token id"],
    ["one id too many", generated({ token_ids: [5, 9, 1] }), "3 token_ids and 2 logprobs"],
    ["another id", generated({ token_ids: [5, 8] }), "token_ids[1] is 8, but its logprob is of 9"],
    ["a null logprob", numbers([null, -1]), "sampled token 0 is null"],
    ["a logprob in words", numbers(["-1", -1]), 'token 0 is "-1"'],
    ["a logprob too large", numbers([-1e300, -1]), "token 0 is -1e+300"],
    ["another count", generated({}, { usage: { completion_tokens: 3 } }), "completion_tokens is 3, but it has 2"],
    ["a stop at another token", completed({ stop_reason: 5 }), "stopped at token 5, but its last token is 9"],
    ["a stop without a token", generated({ token_ids: [], logprobs: null }), "stopped without a token"],
    ["a weight version that is none", generated({}, { weight_version: {} }), "weight_version is not a string"],
  ])("refuses %s, and another try may do better", (_name, value, words) => {
    const { code, retryable, message } = verdict(() => read(value));
    expect([code, retryable]).toEqual(["bad-reply", true]);
    expect(message).toContain(words);
  });

  test.each<[string, unknown, string]>([
    ["several choices", generated({}, { choices: [{}, {}] }), 'leave "n" out'],
    ["tokens without ids", completed({ token_ids: null, logprobs: { tokens: ["a"], token_logprobs: [-1] } }), "0.10.2"],
    ["another length of the prompt", generated({}, { usage: { prompt_tokens: 2 } }), "read 2 prompt tokens"],
    ["another prompt", completed({ prompt_token_ids: [1, 2, 4] }), "a different prompt"],
    ["a shorter prompt", completed({ prompt_token_ids: [1, 2] }), "a different prompt"],
  ])("refuses %s for good", (_name, value, words) => {
    const { code, retryable, message } = verdict(() => read(value));
    expect([code, retryable]).toEqual(["bad-reply", false]);
    expect(message).toContain(words);
  });

  test("a request that the server lost is the server's error", () => {
    expect(verdict(() => read(generated({ finish_reason: "error" })))).toMatchObject({
      code: "server-error",
      retryable: true,
    });
  });

  test("refuses more tokens than were asked for", () => {
    expect(() => read(generated(), { maxTokens: 1 })).toThrow("expected at most 1");
    expect(read(generated(), { maxTokens: null }).sampledTokens).toHaveLength(2);
  });

  test.each([[-1], [1.5], ["3"], [null]])("usage that makes no sense (%j cached tokens) is null", (cached_tokens) => {
    const usage = { prompt_tokens: 3, completion_tokens: 2, prompt_tokens_details: { cached_tokens } };
    expect(read(generated({}, { usage })).usage.cachedTokens).toBeNull();
  });

  test("an answer of 0.32 has ids as numbers in its logprobs, and a version for every token", () => {
    const content = [
      { token_id: 5, logprob: -0.5, rank: 1, top_logprobs: [{ token_id: 5, logprob: -0.5, rank: 1 }] },
      { token_id: 9, logprob: -0.25, rank: 1, top_logprobs: [] },
    ];
    const weight_versions = [
      { version: "v3", start: 0, end: 1 },
      { version: "v4", start: 1, end: 2 },
    ];
    const choice = { logprobs: { content }, weight_versions, stop_reason: 9, sampling_mask: null };
    const result = read(generated(choice, { output_mode: "tokens" }));
    expect(result.sampledTokens).toEqual(Uint32Array.of(5, 9));
    expect(result.logprobs).toEqual(Float32Array.of(-0.5, -0.25));
    expect(result.weightSpans).toEqual([
      { tokenCount: 1, dispatch: "v3", reply: "v3" },
      { tokenCount: 1, dispatch: "v4", reply: "v4" },
    ]);
    expect(verdict(() => read(generated({ ...choice, token_ids: [5, 8] }))).message).toContain("its logprob is of 9");
    expect([...read(generated({ ...choice, token_ids: null })).sampledTokens]).toEqual([5, 9]);
    const late = [{ version: "v3", start: 1, end: 2 }];
    expect(verdict(() => read(generated({ ...choice, weight_versions: late }))).code).toBe("bad-reply");
  });

  test("a server that names its weights in the reply is believed before the trainer", () => {
    expect(read(generated({}, { weight_version: "v7" })).weightSpans[0]?.reply).toBe("v7");
  });

  test.each(Object.entries(vllmGarblings))("refuses the fault sampler's garbage: %s", (_name, garble) => {
    for (const right of [generated(), completed()]) {
      const item = garble(right);
      const value: unknown = item instanceof RawText ? null : item;
      expect(verdict(() => read(value)).code).toBe("bad-reply");
    }
  });
});

const codes = ["accepted", "bad-reply", "bad-request", "server-error", "overloaded", "timeout", "unauthorized"];
const choiceFields = ["token_ids", "finish_reason", "logprobs", "stop_reason", "prompt_token_ids", "index"];
const hostile = fc.oneof(
  fc.jsonValue(),
  fc.record({ choices: fc.array(fc.jsonValue(), { maxLength: 2 }), usage: fc.jsonValue() }),
  fc
    .tuple(fc.constantFrom(generated, completed), fc.constantFrom(...choiceFields), fc.jsonValue())
    .map(([make, name, value]) => make({ [name]: value })),
  fc
    .tuple(fc.constantFrom(generated, completed), fc.jsonValue())
    .map(([make, content]) => make({ logprobs: { content } })),
  fc
    .tuple(fc.jsonValue(), fc.jsonValue())
    .map(([tokens, token_logprobs]) => completed({ logprobs: { tokens, token_logprobs } })),
  fc
    .tuple(fc.constantFrom("usage", "error", "object", "weight_version"), fc.jsonValue())
    .map(([name, value]) => generated({}, { [name]: value })),
);

function checkAligned(result: SampleResult): void {
  expect(result.logprobs).toHaveLength(result.sampledTokens.length);
  expect(result.logprobs?.every((logprob) => Number.isFinite(logprob))).toBe(true);
}

describe("whatever JSON it is given, an answer is aligned tokens or an attributed error", () => {
  test("readReply()", () => {
    const property = fc.property(hostile, (value) => {
      expect(codes).toContain(verdict(() => checkAligned(read(value))).code);
    });
    fc.assert(property, { seed: 5, numRuns: 4000 });
  });

  test("ChoiceFold", () => {
    const data = fc.oneof(
      { weight: 6, arbitrary: hostile.map((value) => JSON.stringify(value)) },
      {
        weight: 3,
        arbitrary: fc.constantFrom(JSON.stringify(generated({ finish_reason: null })), JSON.stringify(generated())),
      },
      { weight: 1, arbitrary: fc.constantFrom("[DONE]", "", "{", '{"choices":[]}') },
    );
    const property = fc.property(fc.array(data, { maxLength: 5 }), (chunks) => {
      const fold = new ChoiceFold(expected.maxTokens, context);
      const { code } = verdict(() => {
        for (const chunk of chunks) fold.take(chunk);
        checkAligned(read(fold.whole()));
      });
      expect(codes).toContain(code);
    });
    fc.assert(property, { seed: 6, numRuns: 3000 });
  });
});

test("ChoiceFold gives what the same answer is as a whole, however it is cut into chunks", () => {
  const tokens = fc.array(fc.tuple(fc.integer({ min: 10, max: 1000 }), fc.integer({ min: 1, max: 64 })), {
    minLength: 1,
    maxLength: 12,
  });
  const property = fc.property(tokens, fc.array(fc.nat(12)), fc.boolean(), (pairs, cuts, isGenerate) => {
    const choiceOf = (part: typeof pairs, finish: string | null): Json => {
      const names = part.map(([id]) => `token_id:${id}`);
      const numbers = part.map(([, weight]) => -weight / 8);
      const content = names.map((token, index) => ({ token, logprob: numbers[index] }));
      return {
        index: 0,
        token_ids: part.map(([id]) => id),
        finish_reason: finish,
        ...(isGenerate
          ? { logprobs: { content } }
          : { stop_reason: null, logprobs: { tokens: names, token_logprobs: numbers } }),
      };
    };
    const usage = { prompt_tokens: 3, completion_tokens: pairs.length };
    const places = [...new Set([...cuts.filter((cut) => cut > 0 && cut < pairs.length), pairs.length])].toSorted(
      (a, b) => a - b,
    );
    const fold = new ChoiceFold(null, context);
    const take = (value: unknown): void => fold.take(JSON.stringify(value));
    let from = 0;
    for (const place of places) {
      take({ choices: [choiceOf(pairs.slice(from, place), place === pairs.length ? "length" : null)], usage: null });
      from = place;
    }
    take({ choices: [], usage });
    fold.take("[DONE]");
    const whole = { choices: [choiceOf(pairs, "length")], usage };
    expect(read(fold.whole(), { maxTokens: null })).toMatchObject({
      ...read(whole, { maxTokens: null }),
      finish: { reason: "length" },
    });
  });
  fc.assert(property, { seed: 7, numRuns: 500 });
});
