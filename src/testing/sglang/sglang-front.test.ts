import { describe, expect, test } from "vitest";
import { endId } from "./byte-tokenizer.test-helper.ts";
import { ask, frontSaying, ids, json, saying, type Json } from "./front.test-helper.ts";
import type { Sampler } from "../front/sampler.ts";
import { createSglangFront, type SglangFrontOptions } from "./sglang-front.ts";

describe("the front's operations", () => {
  /** A front whose requests run until they are aborted or told to finish. */
  function running(options: Partial<SglangFrontOptions> = {}) {
    const finishers: (() => void)[] = [];
    const begun: string[] = [];
    const sampler: Sampler = {
      sample: ({ requestId }, { signal, onTokens }) =>
        new Promise((resolve) => {
          begun.push(requestId);
          onTokens([5], [-0.5]);
          const end = (finish: "end" | "abort"): void =>
            resolve({ ids: [5], logprobs: [-0.5], finish, cachedTokens: 0, weightVersion: null });
          finishers.push(() => end("end"));
          signal.addEventListener("abort", () => end("abort"), { once: true });
        }),
    };
    const front = createSglangFront({ sampler, ...options });
    const generate = async (rid: string): Promise<{ readonly output_ids: unknown; readonly meta_info: Json }> =>
      (await json(ask(front, "/generate", { input_ids: ids, rid, return_logprob: true }))) as never;
    const finishAll = (): void => finishers.splice(0).forEach((finish) => finish());
    return { front, generate, begun, finishAll };
  }

  const settled = (): Promise<void> =>
    new Promise((resolve) => {
      setImmediate(resolve);
    });

  test("POST /abort_request aborts by prefix, but only from an id that is live", async () => {
    const { front, generate, begun } = running();
    const answers = ["a1", "a1-x", "a2"].map(generate);
    await settled();
    expect(begun).toEqual(["a1", "a1-x", "a2"]);
    expect((await ask(front, "/abort_request", { rid: "a" })).status).toBe(200);
    await ask(front, "/abort_request", { rid: "a1" });
    const aborted = await Promise.all(answers.slice(0, 2));
    for (const { output_ids, meta_info } of aborted) {
      expect(output_ids).toEqual([5]);
      expect(meta_info["finish_reason"]).toEqual({
        type: "abort",
        message: "Aborted",
        status_code: null,
        err_type: null,
      });
      expect(meta_info["output_token_logprobs"]).toEqual([[-0.5, 5, null]]);
    }
    expect(front.load()).toEqual({ running: 1, waiting: 0 });
    await ask(front, "/abort_request", { abort_all: true });
    expect((await answers[2])?.meta_info["finish_reason"]).toMatchObject({ type: "abort" });
  });

  test("a request aborted while it waits says so, and knows neither prompt nor cached tokens", async () => {
    const { front, generate, begun } = running();
    await ask(front, "/pause_generation", {});
    const answer = generate("a");
    await settled();
    expect(await json(ask(front, "/v1/loads"))).toMatchObject({
      loads: [{ num_running_reqs: 0, num_waiting_reqs: 1 }],
    });
    await ask(front, "/abort_request", { rid: "a" });
    const { output_ids, meta_info } = await answer;
    expect(output_ids).toEqual([]);
    expect(meta_info["finish_reason"]).toEqual({ type: "abort", message: "Abort in waiting queue" });
    expect(Object.keys(meta_info)).not.toContain("prompt_tokens");
    expect(begun).toEqual([]);
  });

  test("a client that goes away aborts its request", async () => {
    const { front, begun } = running();
    const controller = new AbortController();
    const body = JSON.stringify({ input_ids: ids, rid: "a" });
    const asked = new Request("http://server/generate", { method: "POST", body, signal: controller.signal });
    const answer = front.handle(asked);
    await settled();
    expect(begun).toEqual(["a"]);
    controller.abort();
    await answer;
    expect(front.load()).toEqual({ running: 0, waiting: 0 });
  });

  test("POST /flush_cache refuses while requests run", async () => {
    let flushed = 0;
    const { front, generate, finishAll } = running();
    const plain = createSglangFront({ sampler: { ...saying("a"), flushCache: () => void flushed++ } });
    expect((await ask(plain, "/flush_cache", {})).status).toBe(200);
    expect((await ask(plain, "/flush_cache")).status).toBe(200);
    expect(flushed).toBe(2);
    const answer = generate("a");
    await settled();
    expect((await ask(front, "/flush_cache", {})).status).toBe(400);
    finishAll();
    await answer;
  });

  test("POST /update_weight_version aborts unless told not to", async () => {
    const { front, generate, finishAll } = running();
    const kept = generate("a");
    await settled();
    await ask(front, "/update_weight_version", { new_version: "v1", abort_all_requests: false });
    finishAll();
    // The only token of this reply was sampled before the update.
    expect((await kept).meta_info).toMatchObject({ weight_version: "default", finish_reason: { type: "stop" } });
    const aborted = generate("b");
    await settled();
    const answer = await json(ask(front, "/update_weight_version", { new_version: "v2" }));
    expect(answer).toMatchObject({ success: true, new_version: "v2" });
    expect((await aborted).meta_info["finish_reason"]).toMatchObject({ type: "abort" });
    expect(front.weightVersion()).toBe("v2");
    expect((await ask(front, "/update_weight_version", {})).status).toBe(400);
  });

  test("weights that change in the middle of a request: each token has the version that sampled it", async () => {
    let begin!: (options: Parameters<Sampler["sample"]>[1]) => void;
    const begun = new Promise<Parameters<Sampler["sample"]>[1]>((resolve) => {
      begin = resolve;
    });
    let finish!: () => void;
    const sampler: Sampler = {
      sample: (_, options) =>
        new Promise((resolve) => {
          begin(options);
          const logprobs = [-1, -1, -1];
          finish = () => resolve({ ids: [5, 6, 7], logprobs, finish: "end", cachedTokens: 0, weightVersion: null });
        }),
      updateWeights: async () => undefined,
    };
    const front = createSglangFront({ sampler });
    const answer = json(ask(front, "/generate", { input_ids: ids })) as Promise<{ readonly meta_info: Json }>;
    const { onTokens } = await begun;
    onTokens([5, 6], [-1, -1]);
    await ask(front, "/pause_generation", { mode: "in_place" });
    await ask(front, "/update_weights_from_disk", { model_path: "./new", weight_version: "v2" });
    await ask(front, "/continue_generation", {});
    onTokens([7], [-1]);
    finish();
    expect((await answer).meta_info).toMatchObject({
      weight_version: "v2",
      weight_versions: [
        { version: "default", start: 0, end: 2 },
        { version: "v2", start: 2, end: 3 },
      ],
    });
  });

  test("POST /update_weights_from_disk waits for running requests and holds new ones", async () => {
    const loaded: string[] = [];
    let begin!: () => void;
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const base = running();
    const finish: (() => void)[] = [];
    const sampler: Sampler = {
      sample: () =>
        new Promise((resolve) => {
          begin();
          finish.push(() => resolve({ ids: [5], logprobs: [-1], finish: "end", cachedTokens: 0, weightVersion: null }));
        }),
      updateWeights: async (path) => void loaded.push(path),
    };
    const front = createSglangFront({ sampler });
    const first = json(ask(front, "/generate", { input_ids: ids }));
    await begun;
    const update = ask(front, "/update_weights_from_disk", { model_path: "./new", weight_version: "v2" });
    await settled();
    const second = json(ask(front, "/generate", { input_ids: ids }));
    await settled();
    expect([loaded, front.load()]).toEqual([[], { running: 1, waiting: 1 }]);
    finish.shift()?.();
    expect(await first).toMatchObject({ meta_info: { weight_version: "default" } });
    expect(await json(update)).toMatchObject({ success: true });
    expect([loaded, front.weightVersion()]).toEqual([["./new"], "v2"]);
    await settled();
    finish.shift()?.();
    expect(await second).toMatchObject({ meta_info: { weight_version: "v2" } });
    const cannot = await ask(base.front, "/update_weights_from_disk", { model_path: "./new" });
    expect([cannot.status, await cannot.json()]).toMatchObject([400, { success: false }]);
  });

  test("tells about itself under new and old paths", async () => {
    const front = frontSaying("a", { modelPath: "./m", contextLength: 64 });
    expect((await ask(front, "/health")).status).toBe(200);
    expect((await ask(front, "/health_generate")).status).toBe(200);
    for (const path of ["/model_info", "/get_model_info"]) {
      expect(await json(ask(front, path))).toMatchObject({ model_path: "./m", is_generation: true });
    }
    for (const path of ["/server_info", "/get_server_info"]) {
      expect(await json(ask(front, path))).toMatchObject({ context_length: 64, max_req_input_len: 58 });
    }
    expect(await json(ask(front, "/v1/models"))).toMatchObject({ data: [{ id: "./m", max_model_len: 64 }] });
    const unknown = await ask(front, "/v2/what");
    expect([unknown.status, await unknown.json()]).toEqual([404, { detail: "Not Found" }]);
    expect((await ask(front, "/get_load")).status).toBe(404);
    expect((await ask(front, "/ready")).status).toBe(200);
    await ask(front, "/pause_generation", {});
    expect((await ask(front, "/ready")).status).toBe(503);

    const older = frontSaying("a", { version: "0.5.9" });
    const flat = await ask(older, "/ready");
    expect([flat.status, await flat.json()]).toMatchObject([404, { object: "error", code: 404 }]);
    expect((await ask(older, "/get_load")).status).toBe(200);
  });

  test("turns text to ids and back", async () => {
    const front = frontSaying("a");
    expect(await json(ask(front, "/tokenize", { prompt: "ab" }))).toEqual({
      tokens: [97, 98],
      count: 2,
      max_model_len: 32_768,
    });
    expect(await json(ask(front, "/v1/tokenize", { prompt: ["a", ""] }))).toMatchObject({
      tokens: [[97], []],
      count: [1, 0],
    });
    expect(await json(ask(front, "/detokenize", { tokens: [97, endId] }))).toEqual({ text: "a" });
    const shown = { tokens: [[97, endId], []], skip_special_tokens: false };
    expect(await json(ask(front, "/v1/detokenize", shown))).toEqual({ text: ["a<|im_end|>", ""] });
    expect((await ask(front, "/tokenize", { prompt: 5 })).status).toBe(400);
    expect((await ask(createSglangFront({ sampler: saying("a") }), "/tokenize", { prompt: "a" })).status).toBe(400);
  });

  test("demands its keys: 401 and 403 with the word alone, health without; paused, it is not healthy", async () => {
    const front = frontSaying("a", { apiKey: "k", adminApiKey: "admin" });
    const withKey = (key: string) => ({ authorization: `Bearer ${key}` });
    const missing = await ask(front, "/generate", { input_ids: ids });
    expect([missing.status, await missing.json()]).toEqual([401, { error: "Unauthorized" }]);
    expect((await ask(front, "/generate", { input_ids: ids }, withKey("wrong"))).status).toBe(401);
    expect((await ask(front, "/generate", { input_ids: ids }, withKey("k"))).status).toBe(200);
    const admin = await ask(front, "/pause_generation", {}, withKey("k"));
    expect([admin.status, await admin.json()]).toEqual([403, { error: "Forbidden" }]);
    expect((await ask(front, "/health")).status).toBe(200);
    expect((await ask(front, "/pause_generation", {}, withKey("admin"))).status).toBe(200);
    expect((await ask(front, "/health")).status).toBe(503);
  });

  test("takes a port, says which, and says when it cannot", async () => {
    const front = frontSaying("a");
    const listener = await front.listen();
    expect((await fetch(`${listener.url}/health`)).status).toBe(200);
    await expect(front.listen({ port: listener.port })).rejects.toThrow("EADDRINUSE");
    await listener.close();
    await listener.close();
  });
});
