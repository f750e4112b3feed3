import { describe, expect, test } from "vitest";
import { byteTokenizer } from "../sglang/byte-tokenizer.test-helper.ts";
import { createFunctionSampler, type SamplerRequest } from "../front/sampler.ts";
import { createVllmFront, type VllmFront, type VllmFrontOptions } from "./vllm-front.ts";

type Json = Readonly<Record<string, unknown>>;

const headers = { "content-type": "application/json" };
const paths = { generate: "/inference/v1/generate", completions: "/v1/completions" } as const;

function post(front: VllmFront, path: string, body: unknown, more: Readonly<Record<string, string>> = {}) {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return front.handle(
    new Request(`http://server${path}`, { method: "POST", body: text, headers: { ...headers, ...more } }),
  );
}

const json = async (answer: Promise<Response>): Promise<Json> => (await (await answer).json()) as Json;

const frontSaying = (ids: readonly number[], options: Partial<VllmFrontOptions> = {}): VllmFront =>
  createVllmFront({ sampler: createFunctionSampler(() => ({ ids, cachedTokens: 2 })), ...options });

/** A body of either endpoint with these parameters. */
const bodyOf = (endpoint: keyof typeof paths, parameters: Json = {}, more: Json = {}): Json =>
  endpoint === "generate"
    ? { token_ids: [1, 2, 3], sampling_params: parameters, ...more }
    : { prompt: [1, 2, 3], return_token_ids: true, ...parameters, ...more };

describe("createVllmFront() answers", () => {
  test("ids with ids, as the endpoint of ids does", async () => {
    const answer = await json(
      post(
        frontSaying([5, 9]),
        paths.generate,
        bodyOf("generate", { logprobs: 0, stop_token_ids: [9] }, { request_id: "r" }),
      ),
    );
    const entry = (id: number, logprob: number): Json => {
      const shown = { token_id: id, logprob, rank: null };
      return { ...shown, top_logprobs: [shown] };
    };
    expect(answer).toMatchObject({
      request_id: "r",
      output_mode: "tokens",
      choices: [
        {
          index: 0,
          token_ids: [5, 9],
          finish_reason: "stop",
          stop_reason: 9,
          logprobs: { content: [entry(5, -0.125), entry(9, -0.25)] },
          sampling_mask: null,
          weight_versions: [{ version: "default", start: 0, end: 2 }],
        },
      ],
      usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5, prompt_tokens_details: { cached_tokens: 2 } },
    });
  });

  test("tokens of the endpoint of ids as texts, as 0.12 did", async () => {
    const front = frontSaying([5], { version: "0.12.0" });
    const answer = await json(post(front, paths.generate, bodyOf("generate", { logprobs: 0, max_tokens: 1 })));
    const token = { token: "token_id:5", logprob: -0.125, bytes: null };
    const choice = (answer["choices"] as Json[])[0];
    expect(choice).toMatchObject({ logprobs: { content: [{ ...token, top_logprobs: [token] }] } });
    expect(choice).not.toHaveProperty("weight_versions");
    expect(answer).not.toHaveProperty("output_mode");
  });

  test("the endpoint of ids with 403 when scale-out is not enabled; completions all the same", async () => {
    const front = frontSaying([5], { scaleOut: false });
    const refused = await post(front, paths.generate, bodyOf("generate"));
    expect([refused.status, await refused.json()]).toEqual([
      403,
      {
        error: {
          message: "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.",
          type: "PermissionDeniedError",
          param: null,
          code: 403,
        },
      },
    ]);
    expect((await front.handle(new Request(`http://server${paths.generate}`))).status).toBe(405);
    expect((await post(front, paths.completions, bodyOf("completions"))).status).toBe(200);
  });

  test("weights named by hand, on every reply from then on", async () => {
    const front = frontSaying([5]);
    const answer = await json(post(front, "/update_weight_version", { new_version: "v2" }));
    expect(answer).toEqual({ success: true, new_version: "v2" });
    const { choices } = await json(post(front, paths.generate, bodyOf("generate", { max_tokens: 1 })));
    expect(choices).toMatchObject([{ weight_versions: [{ version: "v2", start: 0, end: 1 }] }]);
    expect((await post(front, "/update_weight_version", {})).status).toBe(400);
  });

  test("ids with ids, as completions do when asked", async () => {
    const parameters = { logprobs: 0, stop_token_ids: [9], return_tokens_as_token_ids: true };
    const answer = await json(post(frontSaying([5, 9]), paths.completions, bodyOf("completions", parameters)));
    expect(answer).toMatchObject({
      object: "text_completion",
      choices: [
        {
          token_ids: [5, 9],
          prompt_token_ids: [1, 2, 3],
          finish_reason: "stop",
          stop_reason: 9,
          logprobs: { tokens: ["token_id:5", "token_id:9"], token_logprobs: [-0.125, -0.25] },
        },
      ],
    });
    const plain = await json(post(frontSaying([5, 9]), paths.completions, { prompt: [[1, 2, 3]] }));
    expect(plain).toMatchObject({ choices: [{ token_ids: null, prompt_token_ids: null, logprobs: null }] });
  });

  test.each([
    ["the model's end token, without a stop reason", { max_tokens: 4 }, [5, 7, 6], [5, 7], "stop", null],
    ["an end token as the last permitted one, still a stop", { max_tokens: 2 }, [5, 7], [5, 7], "stop", null],
    [
      "a stop token, which ignore_eos leaves alone",
      { ignore_eos: true, stop_token_ids: [6] },
      [7, 6],
      [7, 6],
      "stop",
      6,
    ],
    ["the bound", { max_tokens: 2 }, [5, 6, 7], [5, 6], "length", null],
    [
      "16 tokens when no bound is named",
      {},
      Array.from({ length: 20 }, () => 5),
      Array.from({ length: 16 }, () => 5),
      "length",
      null,
    ],
    ["no end token before min_tokens", { min_tokens: 2 }, [7, 7, 5], [7, 7], "stop", null],
  ])("ends at %s", async (_name, parameters, sampled, ids, finish_reason, stop_reason) => {
    const front = frontSaying(sampled, { endTokenIds: [7] });
    const answer = await json(post(front, paths.completions, bodyOf("completions", parameters)));
    expect(answer["choices"]).toMatchObject([{ token_ids: ids, finish_reason, stop_reason }]);
  });

  test("at a stop string where it has a tokenizer, cut from the text and not from the ids", async () => {
    const ids = [...byteTokenizer.encode("one END two")];
    const front = frontSaying(ids, { tokenizer: byteTokenizer });
    const parameters = { stop: ["END"], max_tokens: 7 };
    const answer = await json(post(front, paths.completions, bodyOf("completions", parameters)));
    expect(answer["choices"]).toMatchObject([
      { text: "one ", token_ids: ids.slice(0, 7), finish_reason: "stop", stop_reason: "END" },
    ]);
    const generated = await json(post(front, paths.generate, bodyOf("generate", parameters)));
    expect(generated["choices"]).toMatchObject([{ token_ids: ids.slice(0, 7), finish_reason: "stop" }]);
    const missed = await json(post(front, paths.completions, bodyOf("completions", { stop: "END", max_tokens: 6 })));
    expect(missed["choices"]).toMatchObject([{ text: "one EN", finish_reason: "length", stop_reason: null }]);
  });

  test("as many completions as were asked for", async () => {
    for (const endpoint of ["generate", "completions"] as const) {
      const answer = await json(post(frontSaying([9]), paths[endpoint], bodyOf(endpoint, { n: 2 })));
      expect(answer["choices"]).toMatchObject([
        { index: 0, token_ids: [9] },
        { index: 1, token_ids: [9] },
      ]);
    }
  });

  test.each(["generate", "completions"] as const)("in chunks of what is new, the usage last (%s)", async (endpoint) => {
    const parameters = { logprobs: 0, max_tokens: 3 };
    const more = { stream: true, stream_options: { include_usage: true } };
    const text = await (await post(frontSaying([5, 6, 7]), paths[endpoint], bodyOf(endpoint, parameters, more))).text();
    const data = text
      .split("\n\n")
      .filter((part) => part !== "")
      .map((part) => part.slice("data: ".length));
    expect(data.pop()).toBe("[DONE]");
    const chunks = data.map((part) => JSON.parse(part) as { choices: Json[]; usage: Json | null });
    expect(chunks.map(({ choices }) => choices[0]?.["token_ids"] ?? null)).toEqual([[5], [6], [7], null]);
    expect(chunks.map(({ choices }) => choices[0]?.["finish_reason"] ?? null)).toEqual([null, null, "length", null]);
    expect(chunks.at(-1)?.usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 3 });
    const prompts = chunks.map(({ choices }) => choices[0]?.["prompt_token_ids"] ?? null);
    expect(prompts).toEqual([endpoint === "completions" ? [1, 2, 3] : null, null, null, null]);
  });

  test("the sampler with parameters, their defaults filled in", async () => {
    const seen: SamplerRequest[] = [];
    const sampler = createFunctionSampler((asked) => {
      seen.push(asked);
      return { ids: [9] };
    });
    const front = createVllmFront({ sampler, endTokenIds: [7] });
    const parameters = { temperature: 0, top_p: 0.5, seed: 3, max_tokens: null, stop_token_ids: [9] };
    await post(front, paths.generate, bodyOf("generate", parameters, { request_id: "r" }), { "x-session-id": "k" });
    expect(seen).toMatchObject([
      {
        promptIds: Uint32Array.of(1, 2, 3),
        requestId: "r",
        routingKey: "k",
        params: { temperature: 1, topK: 1, topP: 0.5, minP: 0, seed: 3, maxNewTokens: 32_765 },
      },
    ]);
    expect([...(seen[0]?.params.stopTokenIds ?? [])]).toEqual([7, 9]);
  });
});

describe("createVllmFront() refuses", () => {
  const both = ["generate", "completions"] as const;

  test.each<[string, Json, string]>([
    [
      "a temperature below zero",
      { temperature: -1 },
      "temperature must be non-negative, got -1.0. (parameter=temperature, value=-1.0)",
    ],
    ["a temperature above two", { temperature: 2.5 }, "temperature must be in [0, 2], got 2.5."],
    ["top_p of zero", { top_p: 0 }, "top_p must be in (0, 1], got 0.0."],
    ["top_k below -1", { top_k: -2 }, "top_k must be 0 (disable), or at least 1, got -2."],
    ["min_p above one", { min_p: 2 }, "min_p must be in [0, 1], got 2."],
    ["no repetition penalty", { repetition_penalty: 0 }, "repetition_penalty must be greater than zero, got 0."],
    ["no tokens", { max_tokens: 0 }, "max_tokens must be at least 1, got 0."],
    ["no completion", { n: 0 }, "n must be at least 1, got 0."],
    ["a seed in words", { seed: "x" }, "seed: Input should be a valid number"],
    ["stop tokens in words", { stop_token_ids: ["x"] }, "stop_token_ids: Input should be a valid integer"],
    ["stop strings, having no text", { stop: ["x"] }, "stop is not supported"],
  ])("%s", async (_name, parameters, words) => {
    for (const endpoint of both) {
      const answer = await post(frontSaying([9]), paths[endpoint], bodyOf(endpoint, parameters));
      expect(answer.status).toBe(400);
      expect(await answer.json()).toMatchObject({
        error: { message: expect.stringContaining(words) as string, type: "BadRequestError", code: 400 },
      });
    }
  });

  test.each<[string, unknown, number, string]>([
    ["what is not JSON", "{", 400, "JSON decode error"],
    ["a list", [], 400, "valid dictionary"],
    ["no ids", { sampling_params: {} }, 400, "token_ids: Input should be a valid list"],
    ["no id", { token_ids: [], sampling_params: {} }, 400, "at least 1 item"],
    ["an id below zero", { token_ids: [-1], sampling_params: {} }, 400, "valid integer"],
    ["an id out of the vocabulary", { token_ids: [100], sampling_params: {} }, 400, "out of vocabulary"],
    ["a name it does not know", bodyOf("generate", { max_new_tokens: 3 }), 400, "'max_new_tokens'"],
    ["a model it does not serve", bodyOf("generate", {}, { model: "x" }), 404, "The model `x` does not exist."],
    ["a prompt without room", bodyOf("generate", {}, { token_ids: [1, 2, 3, 4] }), 400, "maximum model length of 4"],
  ])("%s, with HTTP %#", async (_name, body, status, words) => {
    const front = frontSaying([9], { vocabularySize: 100, contextLength: 4 });
    const answer = await post(front, paths.generate, body);
    expect(answer.status).toBe(status);
    expect(await answer.text()).toContain(words);
  });

  test("a body of another content type", async () => {
    const answer = await post(frontSaying([9]), paths.generate, bodyOf("generate"), { "content-type": "text/plain" });
    expect(answer.status).toBe(400);
    expect(await answer.text()).toContain("Only 'application/json' is allowed");
  });

  test.each([
    ["0.10.2", { object: "error", message: "Not Found", type: "NotFoundError", param: null, code: 404 }],
    ["0.12.0", { error: { message: "Not Found", type: "NotFoundError", param: null, code: 404 } }],
    ["0.32.0", { detail: "Not Found" }],
  ] as const)("in the shape of its version (%s)", async (version, body) => {
    expect(await json(post(frontSaying([9], { version }), "/nothing", {}))).toEqual(body);
  });

  test("the endpoint of ids when it is old, and GET of it when it is new", async () => {
    const get = async (version: "0.32.0" | "0.10.2"): Promise<number> =>
      (await frontSaying([9], { version }).handle(new Request(`http://server${paths.generate}`))).status;
    expect([await get("0.10.2"), await get("0.32.0")]).toEqual([404, 405]);
    expect((await post(frontSaying([9], { version: "0.10.2" }), paths.generate, bodyOf("generate"))).status).toBe(404);
  });

  test("a wrong key everywhere but at health", async () => {
    const front = frontSaying([9], { apiKey: "k" });
    const answer = await post(front, paths.completions, bodyOf("completions"), { authorization: "Bearer x" });
    expect([answer.status, await answer.json()]).toEqual([401, { error: "Unauthorized" }]);
    expect((await front.handle(new Request("http://server/health"))).status).toBe(200);
  });

  test("a mode of pause that there is not, and an abort without JSON", async () => {
    const front = frontSaying([9]);
    expect((await post(front, "/pause?mode=retract", "")).status).toBe(400);
    expect((await post(front, "/abort_requests", "x")).status).toBe(400);
  });
});
