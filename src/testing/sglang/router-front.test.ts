import { describe, expect, test } from "vitest";
import { createFunctionSampler } from "../front/sampler.ts";
import { createRouterFront, type RouterWorker } from "./router-front.ts";
import { createSglangFront } from "./sglang-front.ts";

/** A worker that records the requests that reach it. */
function recorder(options: Partial<RouterWorker> = {}) {
  const bodies: unknown[] = [];
  const headers: string[][] = [];
  const worker: RouterWorker = {
    url: "http://worker:1",
    handle: async (request) => {
      headers.push([...request.headers.keys()].toSorted());
      bodies.push(request.method === "POST" ? await request.json() : request.url);
      return Response.json({ ok: true });
    },
    ...options,
  };
  return { worker, bodies, headers };
}

const post = (body: unknown, headers: Readonly<Record<string, string>> = {}): Request =>
  new Request("http://router/generate", {
    method: "POST",
    body: typeof body === "string" ? body : JSON.stringify(body),
    headers: { "content-type": "application/json", ...headers },
  });

describe("createRouterFront()", () => {
  test("writes a generation anew: what it does not know is lost in silence", async () => {
    const { worker, bodies, headers } = recorder();
    const router = createRouterFront({ workers: [worker] });
    const kept = {
      input_ids: [5, 6],
      rid: "r1",
      return_logprob: true,
      priority: 1,
      extra_key: "e",
      sampling_params: { temperature: 0.5, top_k: 5, stop_token_ids: [7], sampling_seed: 7, no_stop_trim: true, n: 1 },
    };
    const lost = { return_prompt_token_ids: true, routing_key: "k", cache_salt: "c", session_id: "s", bogus: 1 };
    const lostParams = { logit_bias: { "5": 1 }, stop_regex: "x", stream_interval: 2, bogus: 3, json_schema: null };
    const body = { ...kept, ...lost, sampling_params: { ...kept.sampling_params, ...lostParams } };
    const answer = await router.handle(post(body, { "x-smg-routing-key": "k", "x-other": "1", cookie: "a" }));
    expect(await answer.json()).toEqual({ ok: true });
    expect(bodies).toEqual([kept]);
    expect(headers[0]).toEqual(["content-type", "x-smg-routing-key"]);
  });

  test("so a parameter that the worker would refuse is served", async () => {
    const front = createSglangFront({ sampler: createFunctionSampler(() => ({ ids: [1] })) });
    const router = createRouterFront({ workers: [{ url: "http://worker:1", handle: (asked) => front.handle(asked) }] });
    const body = { input_ids: [1], sampling_params: { bogus: 1 } };
    expect((await front.handle(post(body))).status).toBe(400);
    expect((await router.handle(post(body))).status).toBe(200);
  });

  test.each([
    ["garbage", 400, "Failed to parse the request body as JSON"],
    ['{"input_ids":"x"}', 422, "input_ids: data did not match any variant of untagged enum InputIds"],
    [
      '{"input_ids":[5],"sampling_params":{"temperature":"x"}}',
      422,
      'sampling_params.temperature: invalid type: "x", expected f32',
    ],
    [
      '{"input_ids":[5],"sampling_params":{"top_k":1.5}}',
      422,
      "sampling_params.top_k: invalid type: 1.5, expected i32",
    ],
    ['{"input_ids":[5],"rid":5}', 422, "rid: invalid type: 5, expected a string"],
  ])("refuses %s itself, in plain text", async (body, status, words) => {
    const { worker, bodies } = recorder();
    const answer = await createRouterFront({ workers: [worker] }).handle(post(body));
    expect([answer.status, answer.headers.get("content-type")]).toEqual([status, "text/plain; charset=utf-8"]);
    expect(await answer.text()).toContain(words);
    expect(bodies).toEqual([]);
  });

  test("is healthy without a healthy worker; readiness says so", async () => {
    const { worker } = recorder({ isHealthy: false });
    const router = createRouterFront({ workers: [worker] });
    const get = (path: string): Promise<Response> => router.handle(new Request(`http://router${path}`));
    expect((await get("/health")).status).toBe(200);
    expect([(await get("/readiness")).status, (await get("/workers")).status]).toEqual([503, 200]);
    const refused = await router.handle(post({ input_ids: [1] }));
    expect([refused.status, refused.headers.get("x-smg-error-code")]).toEqual([503, "no_available_workers"]);
    for (const path of ["/model_info", "/server_info", "/v1/loads", "/list_workers", "/nope", "/ready"]) {
      const unknown = await get(path);
      expect([unknown.status, await unknown.text()]).toEqual([404, ""]);
    }
    expect((await router.handle(new Request("http://router/abort_request", { method: "POST" }))).status).toBe(404);
  });

  test("tries another worker when one cannot be reached; alone, it fails with 500 and is then left alone with 503", async () => {
    const dead = recorder({ handle: () => Promise.reject(new TypeError("refused")) }).worker;
    const { worker } = recorder({ url: "http://worker:2" });
    const both = createRouterFront({ workers: [dead, worker] });
    for (let call = 0; call < 20; call++) {
      expect((await both.handle(post({ input_ids: [1] }, { "x-smg-routing-key": `k${call}` }))).status).toBe(200);
    }
    const alone = createRouterFront({ workers: [dead] });
    const codes: unknown[] = [];
    for (let call = 0; call < 3; call++) {
      const answer = await alone.handle(post({ input_ids: [1] }));
      codes.push([answer.status, answer.headers.get("x-smg-error-code")]);
    }
    const upstream = [500, "call_upstream_request_error"];
    expect(codes).toEqual([upstream, upstream, [503, "no_available_workers"]]);
  });
});
