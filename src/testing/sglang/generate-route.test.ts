import { describe, expect, test } from "vitest";
import { callId, byteTokenizer, endId } from "./byte-tokenizer.test-helper.ts";
import { ask, frames, frontSaying, ids, json, type Json } from "./front.test-helper.ts";
import { createFunctionSampler, type SamplerRequest } from "../front/sampler.ts";
import type { SglangVersion } from "./protocol.ts";
import { createSglangFront, type SglangFrontOptions } from "./sglang-front.ts";

describe("POST /generate answers", () => {
  test("with text, ids and meta_info as the reference does", async () => {
    const front = frontSaying("Hi<|im_end|>", { weightVersion: "v1", version: "0.5.9" });
    const body = { input_ids: ids, rid: "r1", return_logprob: true, return_text_in_logprobs: true };
    expect(await json(ask(front, "/generate", body))).toEqual({
      text: "Hi",
      output_ids: [72, 105, endId],
      meta_info: {
        id: "r1",
        finish_reason: { type: "stop", matched: endId },
        prompt_tokens: 3,
        weight_version: "v1",
        total_retractions: 0,
        input_token_logprobs: [[null, 3, "\u0003"]],
        output_token_logprobs: [
          [-0.125, 72, "H"],
          [-0.25, 105, "i"],
          [-0.375, endId, "<|im_end|>"],
        ],
        completion_tokens: 3,
        cached_tokens: 0,
        e2e_latency: expect.any(Number) as number,
      },
    });
  });

  test("0.5.23 names the weights of each token, and what else it has added", async () => {
    const front = frontSaying("Hi<|im_end|>", { weightVersion: "v1" });
    const body = { input_ids: ids, rid: "r1", return_logprob: true, return_prompt_token_ids: true };
    expect(await json(ask(front, "/generate", body))).toEqual({
      text: "Hi",
      output_ids: [72, 105, endId],
      meta_info: {
        id: "r1",
        finish_reason: { type: "stop", matched: endId },
        prompt_tokens: 3,
        weight_version: "v1",
        num_retractions: 0,
        input_token_logprobs: [],
        output_token_logprobs: [
          [-0.125, 72, null],
          [-0.25, 105, null],
          [-0.375, endId, null],
        ],
        output_token_logprobs_length: 3,
        reasoning_tokens: 0,
        completion_tokens: 3,
        cached_tokens: 0,
        weight_versions: [{ version: "v1", start: 0, end: 3 }],
        cached_tokens_details: null,
        dp_rank: null,
        e2e_latency: expect.any(Number) as number,
        response_sent_to_client_ts: expect.any(Number) as number,
      },
      prompt_token_ids: ids,
    });
  });

  test("without logprobs when none are asked for, and without text when there is no tokenizer", async () => {
    const front = createSglangFront({ sampler: createFunctionSampler(() => ({ ids: [7] })) });
    const item = (await json(ask(front, "/generate", { input_ids: ids }))) as { meta_info: Json };
    expect(Object.keys(item)).toEqual(["output_ids", "meta_info"]);
    expect(Object.keys(item.meta_info)).not.toContain("output_token_logprobs");
  });

  test.each<[string, string, Json, string, Json]>([
    ["the end token is trimmed", "Hi<|im_end|>", {}, "Hi", { type: "stop", matched: endId }],
    [
      "or shown when asked for",
      "Hi<|im_end|>",
      { no_stop_trim: true, skip_special_tokens: false },
      "Hi<|im_end|>",
      { type: "stop", matched: endId },
    ],
    [
      "added tokens that are not special stay",
      "<tool_call>a<|im_end|>",
      {},
      "<tool_call>a",
      { type: "stop", matched: endId },
    ],
    [
      "a stop token of the request",
      "ab<tool_call>c",
      { stop_token_ids: [callId] },
      "ab",
      { type: "stop", matched: callId },
    ],
    [
      "ignore_eos switches all stop tokens off",
      "a<|im_end|><tool_call>b",
      { ignore_eos: true, stop_token_ids: [callId], max_new_tokens: 4, skip_special_tokens: false },
      "a<|im_end|><tool_call>b",
      { type: "length", length: 4 },
    ],
    ["the bound is looked at first", "ab<|im_end|>", { max_new_tokens: 3 }, "ab", { type: "length", length: 3 }],
    ["no token at all", "ab", { max_new_tokens: 0 }, "", { type: "length", length: 0 }],
    ["a stop string cuts the text", "one END two", { stop: ["END"] }, "one ", { type: "stop", matched: "END" }],
    [
      "a stop string may stay",
      "one END two",
      { stop: "END", no_stop_trim: true },
      "one END",
      { type: "stop", matched: "END" },
    ],
    [
      "a stop pattern stays",
      "order 42 is",
      { stop_regex: "[0-9]{2}" },
      "order 42",
      { type: "stop", matched: "[0-9]{2}" },
    ],
    [
      "a minimum keeps stop tokens off",
      "<|im_end|>ab<|im_end|>",
      { min_new_tokens: 2 },
      "ab",
      { type: "stop", matched: endId },
    ],
    ["half a character at the end", "a\u00e9", { max_new_tokens: 2 }, "a\ufffd", { type: "length", length: 2 }],
    ["a sampler that just ends", "ab", {}, "ab", { type: "stop", matched: null }],
  ])("%s", async (_name, said, sampling_params, text, finish_reason) => {
    const answer = await json(ask(frontSaying(said), "/generate", { input_ids: ids, sampling_params }));
    expect(answer).toMatchObject({ text, meta_info: { finish_reason } });
    const { output_ids, meta_info } = answer as { output_ids: unknown[]; meta_info: { completion_tokens: number } };
    expect(output_ids).toHaveLength(meta_info.completion_tokens);
  });

  test("to a text prompt as to its ids", async () => {
    const seen: number[][] = [];
    const sampler = createFunctionSampler(({ promptIds }) => {
      seen.push([...promptIds]);
      return { ids: [endId] };
    });
    const front = createSglangFront({ sampler, tokenizer: byteTokenizer });
    await ask(front, "/generate", { text: "ab" });
    await ask(front, "/generate", { input_ids: [97, 98] });
    expect(seen).toEqual([
      [97, 98],
      [97, 98],
    ]);
  });

  test("to batches and to n > 1 with a list, prompt by prompt", async () => {
    let calls = 0;
    const sampler = createFunctionSampler(({ promptIds }) => ({ ids: [promptIds[0]!, 100 + calls++] }));
    const front = createSglangFront({ sampler });
    const list = async (body: Json): Promise<unknown[]> =>
      ((await json(ask(front, "/generate", body))) as { output_ids: unknown }[]).map((item) => item.output_ids);
    expect(await list({ input_ids: [[5], [6]], sampling_params: { n: 2 } })).toEqual([
      [5, 100],
      [5, 101],
      [6, 102],
      [6, 103],
    ]);
    expect(await list({ input_ids: [7], sampling_params: { n: 2 } })).toEqual([
      [7, 104],
      [7, 105],
    ]);
    expect(await list({ input_ids: [[8]], rid: ["a"], sampling_params: [{}] })).toEqual([[8, 106]]);
  });

  test("with the version at the moment of output", async () => {
    const sampler = createFunctionSampler(() => ({ ids: [1], weightVersion: "v9" }));
    const front = createSglangFront({ sampler });
    expect(await json(ask(front, "/model_info"))).toMatchObject({ weight_version: "default" });
    expect(await json(ask(front, "/generate", { input_ids: ids }))).toMatchObject({
      meta_info: { weight_version: "v9" },
    });
    expect(await json(ask(front, "/get_model_info"))).toMatchObject({ weight_version: "v9" });
  });
});

describe("POST /generate hands the sampler", () => {
  async function paramsOf(sampling_params: Json, options: Partial<SglangFrontOptions> = {}) {
    let seen: SamplerRequest | null = null;
    const sampler = createFunctionSampler((asked) => {
      seen = asked;
      return { ids: [1] };
    });
    const front = createSglangFront({ sampler, contextLength: 100, ...options });
    await ask(front, "/generate", { input_ids: ids, rid: "r", sampling_params }, { "x-smg-routing-key": "k" });
    return seen as SamplerRequest | null;
  }

  test("the defaults of the reference", async () => {
    expect(await paramsOf({}, { contextLength: 1000, endTokenIds: [9] })).toEqual({
      promptIds: Uint32Array.from(ids),
      requestId: "r",
      routingKey: "k",
      params: {
        maxNewTokens: 128,
        minNewTokens: 0,
        temperature: 1,
        topP: 1,
        topK: -1,
        minP: 0,
        frequencyPenalty: 0,
        presencePenalty: 0,
        repetitionPenalty: 1,
        stopTokenIds: new Set([9]),
        logitBias: new Map(),
        seed: null,
      },
    });
  });

  test.each([
    [{ max_new_tokens: null }, { maxNewTokens: 95 }],
    [{}, { maxNewTokens: 95 }],
    [
      { temperature: null, top_p: null, n: 0 },
      { temperature: 1, topP: 1 },
    ],
    [
      { temperature: 0, top_k: 0 },
      { temperature: 1, topK: 1 },
    ],
    [{ temperature: 0 }, { temperature: 1, topK: 1 }],
    [
      { temperature: 1e-7, top_k: 50 },
      { temperature: 1, topK: 1 },
    ],
    [
      { temperature: 0.5, top_k: 50 },
      { temperature: 0.5, topK: 50 },
    ],
    [{ sampling_seed: 7 }, { seed: 7 }],
    [{ logit_bias: { "5": -1.5 } }, { logitBias: new Map([[5, -1.5]]) }],
  ])("%j as %j", async (sampling, params) => {
    expect((await paramsOf(sampling))?.params).toMatchObject(params);
  });
});

describe("POST /generate refuses", () => {
  const flat = (code: number, type: string) => ({
    object: "error",
    message: expect.any(String) as string,
    type,
    param: null,
    code,
  });
  const value = (message: unknown) => ({ error: { message } });
  const longer = "The input (12 tokens) is longer than the model's context length (12 tokens).";
  const long = "Input length (6 tokens) exceeds the maximum allowed length (6 tokens).";
  const total =
    "You requested a total of 13 tokens: 3 tokens from the input messages and 10 tokens for the completion.";

  test.each<[string, unknown, unknown]>([
    ["no JSON", "{", flat(400, "Bad Request")],
    ["a list", [], flat(400, "Bad Request")],
    ["ids in words", { input_ids: "1" }, flat(400, "Bad Request")],
    ["an id in words", { input_ids: ["1"] }, flat(400, "Bad Request")],
    ["an id with a fraction", { input_ids: [1.5] }, flat(400, "Bad Request")],
    ["a flag in words", { input_ids: ids, stream: "yes" }, flat(400, "Bad Request")],
    ["parameters that are a text", { input_ids: ids, sampling_params: "hot" }, flat(400, "Bad Request")],
    ["no prompt", {}, value("Either text, input_ids or input_embeds should be provided.")],
    ["an empty prompt", { input_ids: [] }, value("input_ids cannot be empty.")],
    ["an empty prompt in a batch", { input_ids: [[1], []] }, value("input_ids cannot be empty.")],
    ["an id beyond the vocabulary", { input_ids: [258] }, value(expect.stringContaining("vocab size (258)"))],
    ["a prompt as long as the context", { input_ids: Array.from({ length: 12 }, () => 1) }, value(longer)],
    ["a prompt that leaves too little", { input_ids: [1, 2, 3, 4, 5, 6] }, value(expect.stringContaining(long))],
    [
      "prompt and completion longer than the context",
      { input_ids: ids, sampling_params: { max_new_tokens: 10 } },
      value(expect.stringContaining(total)),
    ],
    ["another number of ids", { input_ids: [[1]], rid: ["a", "b"] }, value(expect.stringContaining("length of rid"))],
    [
      "different n in one batch",
      { input_ids: [[1], [2]], sampling_params: [{ n: 1 }, { n: 2 }] },
      value(expect.stringContaining("parallel_sample_num")),
    ],
    [
      "scores of the prompt",
      { input_ids: ids, logprob_start_len: 0 },
      value(expect.stringContaining("logprob_start_len")),
    ],
    ["a grammar", { input_ids: ids, sampling_params: { regex: "a" } }, value(expect.stringContaining("regex"))],
    [
      "a temperature below zero",
      { input_ids: ids, sampling_params: { temperature: -1.5 } },
      value("temperature must be a non-negative finite number, got -1.5."),
    ],
    ["top_p of zero", { input_ids: ids, sampling_params: { top_p: 0 } }, value("top_p must be in (0, 1], got 0.")],
    [
      "top_k of zero",
      { input_ids: ids, sampling_params: { top_k: 0 } },
      value("top_k must be -1 (disable) or at least 1, got 0."),
    ],
    [
      "min_p above one",
      { input_ids: ids, sampling_params: { min_p: 1.1 } },
      value("min_p must be in [0, 1], got 1.1."),
    ],
    [
      "a penalty out of range",
      { input_ids: ids, sampling_params: { frequency_penalty: 3 } },
      value(expect.stringContaining("frequency_penalty")),
    ],
    [
      "a repetition penalty out of range",
      { input_ids: ids, sampling_params: { repetition_penalty: 2.1 } },
      value(expect.stringContaining("repetition_penalty")),
    ],
    [
      "more at least than at most",
      { input_ids: ids, sampling_params: { max_new_tokens: 1, min_new_tokens: 2 } },
      value(expect.stringContaining("min_new_tokens")),
    ],
  ])("%s with 400", async (_name, body, shape) => {
    const front = frontSaying("a", { contextLength: 12 });
    const answer = await ask(front, "/generate", body);
    expect(answer.status).toBe(400);
    expect(await answer.json()).toEqual(shape);
    expect(front.load()).toEqual({ running: 0, waiting: 0 });
  });

  test.each<[string, string, string]>([
    ["a name of another server", '{"max_tokens":5}', "unknown field `max_tokens`, expected one of `max_new_tokens`"],
    ["a number in words", '{"temperature":"hot"}', 'invalid type: string "hot", expected f64'],
    ["a count with a fraction", '{"top_k":1.5}', "invalid type: floating point `1.5`, expected i64"],
    ["a count with a point", '{"top_k":5.0}', "invalid type: floating point `5.0`, expected i64"],
    ["a stop that is no text", '{"stop":[5]}', "invalid type: integer `5`, expected a string"],
  ])(
    "sampling parameters with %s: 400 with a string, streamed or not; 0.5.9 with a bare 500",
    async (_name, sampling, message) => {
      const body = `{"input_ids":[1],"sampling_params":${sampling}}`;
      for (const text of [body, body.replace("{", '{"stream":true,')]) {
        const answer = await ask(frontSaying("a"), "/generate", text);
        expect([answer.status, await answer.json()]).toEqual([
          400,
          { error: expect.stringContaining(message) as string },
        ]);
      }
      const older = await ask(frontSaying("a", { version: "0.5.9" }), "/generate", body);
      expect([older.status, await older.text()]).toEqual([500, "Internal Server Error"]);
    },
  );

  test("0.5.9: null for a number, text beside ids, a completion that fills the context", async () => {
    const older = frontSaying("a", { version: "0.5.9", contextLength: 8 });
    const newer = frontSaying("a", { contextLength: 12 });
    for (const [body, status] of [
      [{ input_ids: ids, sampling_params: { temperature: null } }, 500],
      [{ input_ids: ids, text: "a" }, 400],
      [{ input_ids: ids, sampling_params: { max_new_tokens: 5 } }, 400],
      [{ input_ids: ids, priority: 1 }, 400],
    ] as const) {
      expect((await ask(older, "/generate", body)).status).toBe(status);
      expect((await ask(newer, "/generate", body)).status).toBe(200);
    }
  });

  test("an id that is live already", async () => {
    let release!: () => void;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const sampler = createFunctionSampler(async () => {
      await held;
      return { ids: [1] };
    });
    const front = createSglangFront({ sampler });
    const first = ask(front, "/generate", { input_ids: ids, rid: "a" });
    const second = await ask(front, "/generate", { input_ids: [ids, ids], rid: ["b", "a"] });
    expect([second.status, await second.json()]).toEqual([400, value("Duplicate request ID detected: a")]);
    release();
    expect((await first).status).toBe(200);
    expect((await ask(front, "/generate", { input_ids: ids, rid: "b" })).status).toBe(200);
  });

  test("what the sampler cannot do, and its crashes", async () => {
    const front = createSglangFront({ sampler: createFunctionSampler(() => Promise.reject(new Error("secret"))) });
    const answer = await ask(front, "/generate", { input_ids: ids });
    expect([answer.status, await answer.text()]).toEqual([500, "Internal Server Error"]);
  });
});

describe("POST /generate streams", () => {
  test("text and ids so far, then [DONE]", async () => {
    const answer = frames(ask(frontSaying("Hé<|im_end|>"), "/generate", { input_ids: ids, stream: true }));
    expect(await answer).toMatchObject([
      { text: "H", output_ids: [72], meta_info: { finish_reason: null, completion_tokens: 1 } },
      { text: "H", output_ids: [72, 0xc3], meta_info: { completion_tokens: 2 } },
      { text: "Hé", output_ids: [72, 0xc3, 0xa9], meta_info: { completion_tokens: 3 } },
      {
        text: "Hé",
        output_ids: [72, 0xc3, 0xa9, endId],
        meta_info: { finish_reason: { type: "stop", matched: endId } },
      },
      "[DONE]",
    ]);
  });

  test.each<[SglangVersion, readonly string[], readonly number[]]>([
    ["0.5.23", ["a", "", "é", ""], [1, 1, 1, 1]],
    ["0.5.9", ["a", "a", "aé", "aé"], [1, 2, 3, 4]],
  ])("only what is new when it is set so: version %s", async (version, texts, logprobCounts) => {
    const front = frontSaying("aé<|im_end|>", { streamOutput: "delta", version });
    const body = { input_ids: ids, stream: true, return_logprob: true };
    const seen = (await frames(ask(front, "/generate", body))).slice(0, -1) as Json[];
    const metas = seen.map((frame) => frame["meta_info"] as Json);
    expect(seen.map((frame) => frame["output_ids"])).toEqual([[97], [0xc3], [0xa9], [endId]]);
    expect(seen.map((frame) => frame["text"])).toEqual(texts);
    expect(metas.map((meta) => (meta["output_token_logprobs"] as unknown[]).length)).toEqual(logprobCounts);
    expect(metas.map((meta) => meta["completion_tokens"])).toEqual([1, 2, 3, 4]);
  });

  test("a frame for the first token, then for every so many", async () => {
    const body = { input_ids: ids, stream: true, sampling_params: { stream_interval: 2, max_new_tokens: 5 } };
    const seen = await frames(ask(frontSaying("abcdef"), "/generate", body));
    expect(seen.slice(0, -1).map((frame) => (frame as Json)["text"])).toEqual(["a", "abc", "abcde"]);
  });

  test("nothing that may still become a stop string", async () => {
    const body = { input_ids: ids, stream: true, sampling_params: { stop: ["END"] } };
    const seen = await frames(ask(frontSaying("aENxEND"), "/generate", body));
    const texts = seen.slice(0, -1).map((frame) => (frame as Json)["text"]);
    expect(texts).toEqual(["a", "a", "a", "aENx", "aENx", "aENx", "aENx"]);
  });

  test("batches with an index in every frame", async () => {
    const body = { input_ids: [[1], [2]], stream: true };
    const seen = await frames(ask(frontSaying("a<|im_end|>"), "/generate", body));
    const last = seen.filter(
      (frame) => frame !== "[DONE]" && (frame as { meta_info: Json }).meta_info["finish_reason"] !== null,
    );
    expect(last.map((frame) => (frame as Json)["index"])).toEqual(expect.arrayContaining([0, 1]));
  });

  test("its refusals inside the stream, with 200; only wrong types are refused before", async () => {
    const front = frontSaying("a", { contextLength: 8 });
    const message = "The input (8 tokens) is longer than the model's context length (8 tokens).";
    const long = await ask(front, "/generate", { input_ids: [1, 2, 3, 4, 5, 6, 7, 8], stream: true });
    expect(long.status).toBe(200);
    expect(await frames(Promise.resolve(long))).toEqual([
      { error: { message, type: "invalid_request_error", code: 400, retryable: false } },
      "[DONE]",
    ]);
    expect((await ask(front, "/generate", { input_ids: ids, stream: "yes" })).status).toBe(400);
  });

  test("a crash as a broken connection", async () => {
    const answer = await ask(frontSaying("a", { version: "0.5.9" }), "/generate", {
      input_ids: ids,
      stream: true,
      sampling_params: { topp: 1 },
    });
    expect(answer.status).toBe(200);
    await expect(answer.text()).rejects.toThrow("broken");
  });
});
