import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AttributedError } from "../../core/failure.ts";
import type { SampleResult } from "../../core/engine.ts";
import { garblings, RawText } from "../../testing/index.ts";
import { parseReply, readGenerateReply } from "./generate-reply.ts";
import type { ExpectedReply, FailureContext } from "../../http/index.ts";
import { sglangDialect } from "./sglang-engine.ts";

const context: FailureContext = {
  what: "sample from SGLang",
  redact: (text) => text,
  hasApiKey: false,
  dialect: sglangDialect,
};
const expected: ExpectedReply = {
  promptTokens: 3,
  maxTokens: 8,
  stopTokenIds: [9],
  vocabularySize: 2000,
  dispatchVersion: "v1",
};

/** A valid reply; `item` and `meta` replace fields, `undefined` removes them. */
function reply(item: Readonly<Record<string, unknown>> = {}, meta: Readonly<Record<string, unknown>> = {}): unknown {
  const whole = {
    text: "ab",
    output_ids: [5, 9],
    ...item,
    meta_info: {
      id: "x",
      finish_reason: { type: "stop", matched: 9 },
      prompt_tokens: 3,
      weight_version: "v2",
      output_token_logprobs: [
        [-0.5, 5, null],
        [-0.25, 9, null],
      ],
      completion_tokens: 2,
      cached_tokens: 1,
      ...meta,
    },
  };
  return JSON.parse(JSON.stringify(whole));
}

/** Reads a reply in both ways, from its bytes and parsed; the results must be equal. */
function read(value: unknown): SampleResult {
  const slowly = attempt(() => readGenerateReply({ value, logged: null }, expected, context));
  const bytes = Buffer.from(JSON.stringify(value));
  const fast = attempt(() => readGenerateReply(parseReply(bytes, context), expected, context));
  expect(fast()).toEqual(slowly());
  return readGenerateReply({ value, logged: null }, expected, context);
}

/** The outcome of an action in comparable form. */
function attempt<T>(action: () => T): () => T | string {
  try {
    const result = action();
    return () => result;
  } catch (error) {
    const words = String(error);
    return () => words;
  }
}

function refusal(value: unknown): { readonly code: string; readonly retryable: boolean; readonly message: string } {
  try {
    read(value);
  } catch (error) {
    if (error instanceof AttributedError) return error.failure;
    throw error;
  }
  return { code: "accepted", retryable: false, message: "" };
}

/** One version for each token, or a range of versions if the server did not report them. */
const exactly = (tokenCount: number, dispatch: string, last: string = dispatch) => ({
  tokenCount,
  dispatch,
  reply: last,
});

describe("weight_versions of a reply", () => {
  const span = (version: unknown, start: unknown, end: unknown) => ({ version, start, end });
  const spansOf = (weight_versions: unknown, meta: Readonly<Record<string, unknown>> = {}) =>
    read(reply({}, { weight_versions, ...meta })).weightSpans;
  const abort = { finish_reason: { type: "abort" } };

  test.each<[string, unknown, Readonly<Record<string, unknown>>, readonly unknown[]]>([
    ["one version", [span("v2", 0, 2)], {}, [exactly(2, "v2")]],
    ["an update in the middle", [span("v1", 0, 1), span("v2", 1, 2)], {}, [exactly(1, "v1"), exactly(1, "v2")]],
    ["an update before the first token", [span("v0", 0, 0), span("v2", 0, 2)], {}, [exactly(2, "v2")]],
    ["an older server", undefined, {}, [{ tokenCount: 2, dispatch: "v1", reply: "v2" }]],
    ["nothing known", null, {}, [{ tokenCount: 2, dispatch: "v1", reply: "v2" }]],
    [
      "an abort a step ahead of its tokens",
      [span("v1", 0, 1), span("v2", 1, 3)],
      abort,
      [exactly(1, "v1"), exactly(1, "v2")],
    ],
    ["an abort a step behind its tokens", [span("v1", 0, 1)], abort, [exactly(1, "v1"), exactly(1, "v1", "v2")]],
  ])("%s", (_name, spans, meta, wanted) => {
    expect(spansOf(spans, meta)).toEqual(wanted);
  });

  test("a reply without a token keeps what was known", () => {
    const nothing = { output_token_logprobs: [], completion_tokens: 0, finish_reason: { type: "length", length: 0 } };
    const { weightSpans } = read(reply({ output_ids: [] }, { ...nothing, weight_versions: [span("v2", 0, 0)] }));
    expect(weightSpans).toEqual([{ tokenCount: 0, dispatch: "v1", reply: "v2" }]);
  });

  test.each<[string, unknown]>([
    ["no list", "v2"],
    ["a gap", [span("v1", 0, 1), span("v2", 2, 2)]],
    ["an overlap", [span("v1", 0, 2), span("v2", 1, 2)]],
    ["a late beginning", [span("v1", 1, 2)]],
    ["an early end", [span("v1", 0, 1)]],
    ["a late end", [span("v1", 0, 3)]],
    ["an end before its start", [span("v1", 0, 2), span("v2", 2, 1)]],
    ["half a token", [span("v1", 0, 0.5), span("v2", 0.5, 2)]],
    ["a version that is not a string", [span({}, 0, 2)]],
    ["no version", [span(null, 0, 2)]],
    ["no spans", []],
  ])("refuses %s", (_name, spans) => {
    expect(refusal(reply({}, { weight_versions: spans }))).toMatchObject({ code: "bad-reply", retryable: true });
  });
});

describe("readGenerateReply()", () => {
  test("reads tokens, logprobs, finish, weights and usage", () => {
    expect(read(reply())).toEqual({
      sampledTokens: Uint32Array.of(5, 9),
      logprobs: Float32Array.of(-0.5, -0.25),
      finish: { reason: "stop", matched: 9, raw: '{"type":"stop","matched":9}' },
      weightSpans: [{ tokenCount: 2, dispatch: "v1", reply: "v2" }],
      usage: { promptTokens: 3, completionTokens: 2, cachedTokens: 1 },
    });
  });

  test("takes a logprob that rounding lifted above 0, up to 1e-3, and no higher one", () => {
    const output_token_logprobs = [
      [1e-3, 5],
      [0, 9],
    ];
    expect(read(reply({}, { output_token_logprobs })).logprobs).toEqual(Float32Array.of(1e-3, 0));
    output_token_logprobs[0] = [1.001e-3, 5];
    expect(refusal(reply({}, { output_token_logprobs })).code).toBe("bad-reply");
  });

  test("takes ids from the logprobs when the server lists none", () => {
    expect(read(reply({ output_ids: undefined })).sampledTokens).toEqual(Uint32Array.of(5, 9));
  });

  test.each([
    [{ finish_reason: { type: "stop", matched: "</x>" } }, { reason: "stop", matched: "</x>" }],
    [{ finish_reason: { type: "stop", matched: null } }, { reason: "stop", matched: null }],
    [{ finish_reason: { type: "length", length: 2 } }, { reason: "length", matched: null }],
    [{ finish_reason: { type: "abort", message: "Aborted", status_code: null } }, { reason: "abort", matched: null }],
  ])("keeps what the server said about the end: %j", (meta, finish) => {
    const result = read(reply({}, meta));
    expect(result.finish).toMatchObject(finish);
    expect(JSON.parse(result.finish.raw ?? "")).toEqual(meta.finish_reason);
  });

  test.each([
    ["with empty lists", { output_ids: [] }, { output_token_logprobs: [] }],
    ["with ids only", { output_ids: [] }, { output_token_logprobs: undefined }],
    ["with logprobs only", { output_ids: undefined }, { output_token_logprobs: [] }],
  ])("an abort in the waiting queue is a result without tokens, %s", (_name, item, meta) => {
    const finish_reason = { type: "abort", message: "Abort in waiting queue" };
    const absent = { prompt_tokens: undefined, cached_tokens: undefined, completion_tokens: undefined };
    const result = read(reply(item, { ...absent, finish_reason, ...meta }));
    expect(result.sampledTokens).toHaveLength(0);
    expect(result.logprobs).toHaveLength(0);
    expect(result.finish.reason).toBe("abort");
    expect(result.usage).toEqual({ promptTokens: 3, completionTokens: 0, cachedTokens: null });
  });

  test.each([
    [400, "Input length (9 tokens) exceeds the maximum allowed length (7 tokens).", "context-length", false],
    [400, "bad grammar", "bad-request", false],
    [503, "Request waiting timeout reached.", "overloaded", true],
    [500, "Prefill bootstrap failed", "server-error", true],
  ])("an abort with status %i inside HTTP 200 is a failure: %s", (status_code, message, code, retryable) => {
    const finish_reason = { type: "abort", message, status_code, err_type: "x" };
    expect(refusal(reply({ output_ids: [] }, { finish_reason, output_token_logprobs: [] }))).toMatchObject({
      code,
      retryable,
    });
  });

  test.each<[string, unknown, string]>([
    ["null", null, "meta_info is missing"],
    ["text", "hello", "meta_info is missing"],
    ["no meta_info", { output_ids: [5] }, "meta_info is missing"],
    ["meta_info that is a list", { output_ids: [5, 9], meta_info: [] }, "meta_info is missing"],
    ["no finish reason", reply({}, { finish_reason: null }), "finish_reason is missing"],
    ["an unknown finish reason", reply({}, { finish_reason: { type: "tired" } }), '{"type":"tired"} is unknown'],
    ["a finish reason in words", reply({}, { finish_reason: "stop" }), '"stop" is unknown'],
    ["no ids and no logprobs", reply({ output_ids: undefined }, { output_token_logprobs: undefined }), "are missing"],
    ["ids without logprobs", reply({}, { output_token_logprobs: undefined }), "logprobs are missing"],
    ["ids that are not a list", reply({ output_ids: "5,9" }), "output_ids is not a list"],
    ["an id below zero", reply({ output_ids: [5, -1] }), "output_ids[1] is not a token id"],
    ["an id with a fraction", reply({ output_ids: [5.5, 9] }), "output_ids[0] is not a token id"],
    ["an id of 2^32", reply({ output_ids: [5, 2 ** 32] }), "output_ids[1] is not a token id"],
    ["an id in quotes", reply({ output_ids: ["5", 9] }), "output_ids[0] is not a token id"],
    ["one id too many", reply({ output_ids: [5, 9, 1] }), "3 output_ids and 2 logprobs"],
    ["another id", reply({ output_ids: [5, 8] }), "output_ids[1] is 8, but its logprob is of 9"],
    [
      "a null logprob",
      reply(
        {},
        {
          output_token_logprobs: [
            [null, 5],
            [-1, 9],
          ],
        },
      ),
      "sampled token 0 is null",
    ],
    [
      "a logprob in words",
      reply(
        {},
        {
          output_token_logprobs: [
            ["-1", 5],
            [-1, 9],
          ],
        },
      ),
      'token 0 is "-1"',
    ],
    [
      "a logprob too large",
      reply(
        {},
        {
          output_token_logprobs: [
            [-1e300, 5],
            [-1, 9],
          ],
        },
      ),
      "token 0 is -1e+300",
    ],
    ["a logprob without an id", reply({}, { output_token_logprobs: [[-1], [-1, 9]] }), "[0] has no token id"],
    ["logprobs that are not a list", reply({}, { output_token_logprobs: { 0: [-1, 5] } }), "is not a list"],
    ["another count", reply({}, { completion_tokens: 3 }), "completion_tokens is 3, but it has 2"],
    ["a weight version that is none", reply({}, { weight_version: {} }), "weight_version is not a string"],
    [
      "a stop without a token",
      reply({ output_ids: [] }, { output_token_logprobs: [], completion_tokens: 0 }),
      "stopped without a token",
    ],
  ])("refuses %s, and another try may do better", (_name, value, words) => {
    const { code, retryable, message } = refusal(value);
    expect([code, retryable]).toEqual(["bad-reply", true]);
    expect(message).toContain(words);
  });

  test("refuses more tokens than were asked for", () => {
    const value = reply();
    const readWith = (maxTokens: number | null): SampleResult =>
      readGenerateReply({ value, logged: null }, { ...expected, maxTokens }, context);
    expect(() => readWith(1)).toThrow("expected at most 1");
    expect(readWith(null).sampledTokens).toHaveLength(2);
  });

  test("refuses for good what continues another prompt, and lists", () => {
    expect(refusal(reply({}, { prompt_tokens: 2 }))).toMatchObject({ code: "bad-reply", retryable: false });
    expect(refusal(reply({}, { prompt_tokens: 2 })).message).toContain("--allow-auto-truncate");
    expect(refusal([reply()])).toMatchObject({ code: "bad-reply", retryable: false });
  });

  test.each([[-1], [1.5], ["3"], [null]])("usage that makes no sense (%j cached tokens) is null", (cached_tokens) => {
    expect(read(reply({}, { cached_tokens })).usage.cachedTokens).toBeNull();
  });

  test.each([
    ["v7", "v7"],
    [7, "7"],
    [null, null],
    [undefined, null],
  ])("weight version %j is recorded as %j", (weight_version, version) => {
    expect(read(reply({}, { weight_version })).weightSpans[0]?.reply).toBe(version);
  });

  test("never throws anything but an attributed error, whatever JSON it is given", () => {
    const hostile = fc.oneof(
      fc.jsonValue(),
      fc.record({ meta_info: fc.jsonValue(), output_ids: fc.jsonValue() }),
      fc
        .tuple(
          fc.constantFrom("output_ids", "finish_reason", "output_token_logprobs", "weight_version"),
          fc.jsonValue(),
        )
        .map(([name, value]) => (name === "output_ids" ? reply({ [name]: value }) : reply({}, { [name]: value }))),
    );
    fc.assert(
      fc.property(hostile, (value) => {
        const { code } = refusal(value);
        expect([
          "accepted",
          "bad-reply",
          "bad-request",
          "server-error",
          "overloaded",
          "timeout",
          "unauthorized",
        ]).toContain(code);
      }),
      { seed: 5, numRuns: 2000 },
    );
  });

  test.each(Object.entries(garblings))("refuses the fault sampler's garbage: %s", (_name, garble) => {
    const item = garble(reply() as Readonly<Record<string, unknown>>);
    const text = item instanceof RawText ? item.text : JSON.stringify(item);
    const parse = (): unknown => {
      try {
        return JSON.parse(text);
      } catch {
        return null;
      }
    };
    expect(refusal(parse()).code).toBe("bad-reply");
  });
});
