// The engine with the protocol front, without a socket.

import { describe, expect, test } from "vitest";
import { ConfigurationError } from "../../core/failure.ts";
import { createManualClock } from "../../lib/clock.test-helper.ts";
import { createFunctionSampler, createVllmFront } from "../../testing/index.ts";
import type { VllmWarning } from "./endpoints.ts";
import { createVllmEngine } from "./vllm-engine.ts";
import { apiKey, echo, failureOf, idle, request, stuckSampler } from "../../http/engine-calls.test-helper.ts";
import { engineOf, engineOn } from "./vllm.test-helper.ts";

const versions = ["0.32.0", "0.12.0", "0.10.2"] as const;

describe("createVllmEngine().sample()", () => {
  test.each(versions)("sends the prompt and gives what was sampled (vLLM %s)", async (version) => {
    const engine = engineOn(createVllmFront({ sampler: echo, apiKey, version }), { endpoint: "auto" });
    expect(engine.endpoint).toBeNull();
    const result = await engine.sample(request({ prompt: [7, 8], stopTokenIds: [9] }));
    expect(engine.endpoint).toBe(version === "0.10.2" ? "completions" : "generate");
    const raw = version === "0.12.0" ? '{"finish_reason":"stop"}' : '{"finish_reason":"stop","stop_reason":9}';
    const named = version === "0.32.0" ? "default" : null;
    expect(result).toEqual({
      sampledTokens: Uint32Array.of(7, 8, 9),
      logprobs: Float32Array.of(-0.125, -0.25, -0.375),
      finish: { reason: "stop", matched: 9, raw },
      weightSpans: [{ tokenCount: 3, dispatch: named, reply: named }],
      usage: { promptTokens: 2, completionTokens: 3, cachedTokens: 1 },
    });
  });

  test("asks once which endpoint there is, however many calls begin at once", async () => {
    const front = createVllmFront({ sampler: echo });
    const asked: string[] = [];
    const engine = engineOf(
      (sent) => {
        asked.push(`${sent.method} ${new URL(sent.url).pathname}`);
        return front.handle(sent);
      },
      { endpoint: "auto" },
    );
    await Promise.all(["a", "b", "c"].map((requestId) => engine.sample(request({ requestId }))));
    await engine.sample(request({ requestId: "d" }));
    expect(asked).toEqual(Array(5).fill("POST /inference/v1/generate"));
  });

  test.each([false, true])(
    "a server of 0.32 whose endpoint of ids is disabled completes (stream: %s)",
    async (stream) => {
      const front = createVllmFront({ sampler: echo, apiKey });
      const disabled = {
        error: {
          message: "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.",
          type: "PermissionDeniedError",
          param: null,
          code: 403,
        },
      };
      const server = (sent: Request): Response | Promise<Response> => {
        if (new URL(sent.url).pathname !== "/inference/v1/generate") return front.handle(sent);
        return Response.json(disabled, { status: sent.method === "GET" ? 405 : 403 });
      };
      const engine = engineOf(server, { endpoint: "auto", stream });
      expect([...(await engine.sample(request({ prompt: [7, 8] }))).sampledTokens]).toEqual([7, 8, 9]);
      expect(engine.endpoint).toBe("completions");
      const { failure } = await failureOf(engineOf(server, { endpoint: "generate", stream }).sample(request()));
      expect(failure).toMatchObject({ code: "bad-request", retryable: false });
      expect(failure.message).toContain("sample from the endpoint of completions");
    },
  );

  test("a server that refuses the key is not taken for one without the endpoint", async () => {
    const engine = engineOf(() => Response.json({ error: "Forbidden" }, { status: 403 }), { endpoint: "auto" });
    expect((await failureOf(engine.sample(request()))).failure.code).toBe("unauthorized");
  });

  test("a server that cannot be asked for its endpoint is asked again by the next call", async () => {
    const front = createVllmFront({ sampler: echo });
    let isUp = false;
    const engine = engineOf((sent) => (isUp ? front.handle(sent) : new Response("", { status: 503 })), {
      endpoint: "auto",
    });
    expect((await failureOf(engine.sample(request()))).failure).toMatchObject({ code: "overloaded", retryable: true });
    isUp = true;
    expect((await engine.sample(request())).finish.reason).toBe("stop");
  });

  test.each([
    ["generate", "/inference/v1/generate"],
    ["completions", "/v1/completions"],
  ] as const)("writes vLLM's names: %s", async (endpoint, path) => {
    let seen: unknown;
    const engine = engineOf(
      async (sent) => {
        seen = [new URL(sent.url).pathname, await sent.json()];
        return new Response("", { status: 500 });
      },
      { endpoint, model: "adapter" },
    );
    const sampling = { topK: -1, maxNewTokens: null, seed: 4, extra: { ignore_eos: true } };
    const stopStrings = { strings: ["END"], watch: () => () => null };
    await failureOf(engine.sample({ ...request({ prompt: [1, 2], sampling, requestId: "r" }), stopStrings }));
    const parameters = {
      max_tokens: null,
      temperature: 1,
      top_p: 1,
      top_k: 0,
      min_p: 0,
      repetition_penalty: 1,
      stop_token_ids: [9],
      stop: ["END"],
      logprobs: 0,
      seed: 4,
      ignore_eos: true,
    };
    const shared = { request_id: "r", model: "adapter", stream: false };
    const wanted =
      endpoint === "generate"
        ? { token_ids: [1, 2], ...shared, sampling_params: parameters }
        : { prompt: [1, 2], ...shared, return_token_ids: true, return_tokens_as_token_ids: true, ...parameters };
    expect(seen).toEqual([path, wanted]);
  });

  test("sends key and routing key, under the header of the router", async () => {
    const seen: (string | null)[][] = [];
    const answer = (sent: Request): Response => {
      seen.push(["authorization", "x-session-id", "x-flow"].map((name) => sent.headers.get(name)));
      return new Response("", { status: 500 });
    };
    const bearer = `Bearer ${apiKey}`;
    for (const routingKey of ["bookshop:17#3", "käse\n", null]) {
      await failureOf(engineOf(answer).sample(request({ routingKey })));
    }
    await failureOf(engineOf(answer, { routingHeader: "x-flow" }).sample(request({ routingKey: "k" })));
    await failureOf(engineOf(answer, { routingHeader: null }).sample(request({ routingKey: "k" })));
    expect(seen).toEqual([
      [bearer, "bookshop:17#3", null],
      [bearer, "k%C3%A4se%0A", null],
      [bearer, null, null],
      [bearer, null, "k"],
      [bearer, null, null],
    ]);
  });

  test("a span has the versions that the trainer told last, before dispatch and before the reply", async () => {
    const engine = engineOn(
      createVllmFront({
        sampler: createFunctionSampler(() => {
          engine.setWeightVersion("v2");
          return { ids: [9] };
        }),
        version: "0.10.2",
      }),
      { endpoint: "completions" },
    );
    engine.setWeightVersion("v1");
    const { weightSpans } = await engine.sample(request());
    expect(weightSpans).toEqual([{ tokenCount: 1, dispatch: "v1", reply: "v2" }]);
    expect(await engine.weightVersion()).toBe("v2");
    engine.setWeightVersion(null);
    expect(await engine.weightVersion()).toBeNull();
  });

  test("a reported version is taken where the server names none", async () => {
    const told = engineOn(createVllmFront({ sampler: echo, version: "0.10.2" }), { endpoint: "completions" });
    expect(await told.reportWeightVersion("v1")).toEqual([null]);
    expect((await told.sample(request())).weightSpans).toEqual([{ tokenCount: 4, dispatch: "v1", reply: "v1" }]);
    const naming = engineOn(createVllmFront({ sampler: echo, weightVersion: "v5" }));
    await naming.reportWeightVersion("v4");
    expect((await naming.sample(request())).weightSpans).toEqual([{ tokenCount: 4, dispatch: "v5", reply: "v5" }]);
  });

  test("a gateway that forbids all but health and sampling hides pauses and versions, and no more", async () => {
    const engine = engineOf(({ url }) => new Response("", { status: new URL(url).pathname === "/health" ? 200 : 403 }));
    expect(await engine.isReady()).toBe(true);
    expect(await engine.weightVersion()).toBeNull();
  });

  test("a late answer to an earlier question never moves the version back", async () => {
    const held: ((version: string) => void)[] = [];
    const engine = engineOf(async () =>
      Response.json({ weight_version: await new Promise<string>((resolve) => held.push(resolve)) }),
    );
    const earlier = engine.weightVersion();
    const report = engine.reportWeightVersion("v1");
    while (held.length < 2) await new Promise((done) => setImmediate(done));
    held[1]!("v1");
    await report;
    held[0]!("v0");
    expect(await earlier).toBe("v1");
  });

  test("the newest servers say their version themselves", async () => {
    const engine = engineOn(createVllmFront({ sampler: echo, weightVersion: "v5" }));
    expect(await engine.weightVersion()).toBe("v5");
    expect((await engine.sample(request())).weightSpans).toEqual([{ tokenCount: 4, dispatch: "v5", reply: "v5" }]);
  });

  test.each(["generate", "completions"] as const)(
    "a prompt that does not fit is context-length, at exactly the limit of %s",
    async (endpoint) => {
      for (const version of endpoint === "generate" ? (["0.32.0", "0.12.0"] as const) : versions) {
        const engine = engineOn(createVllmFront({ sampler: echo, contextLength: 8, version }), { endpoint });
        const ask = (prompt: number, maxNewTokens: number | null): Promise<unknown> =>
          engine.sample(request({ prompt: new Uint32Array(prompt).fill(5), sampling: { maxNewTokens } }));
        await ask(3, 5);
        await ask(7, null);
        const refused =
          endpoint === "generate" || version === "0.32.0"
            ? ([
                [8, 1],
                [9, null],
              ] as const)
            : ([
                [3, 6],
                [8, null],
              ] as const);
        for (const [prompt, most] of refused) {
          const { failure } = await failureOf(ask(prompt, most));
          expect(failure).toMatchObject({ code: "context-length", retryable: false });
        }
      }
    },
  );

  test("a model that is not served is refused with the remedy", async () => {
    const engine = engineOn(createVllmFront({ sampler: echo, model: "served" }), { model: "another" });
    const error = await failureOf(engine.sample(request()));
    expect(error.failure).toMatchObject({ code: "bad-request", retryable: false });
    expect(error.message).toContain("give the name under which the server serves the model");
  });
});

describe("createVllmEngine() gives up a request", () => {
  test("when its caller cancels, and has the server abort it behind a proxy that hides that", async () => {
    const { sampler, begun } = stuckSampler();
    const front = createVllmFront({ sampler });
    const engine = engineOf((asked) =>
      front.handle(
        new Request(asked.url, { method: asked.method, headers: asked.headers, body: asked.body, duplex: "half" }),
      ),
    );
    const controller = new AbortController();
    const sampled = failureOf(engine.sample(request({ requestId: "r1" }), { signal: controller.signal }));
    await begun;
    controller.abort();
    expect((await sampled).failure).toMatchObject({ code: "cancelled", retryable: false });
    await engine.close();
    await idle(front);
  });

  test("before anything is sent when its signal is aborted already, or while the endpoint is looked for", async () => {
    const silent = engineOf(() => {
      throw new Error("Something was sent.");
    });
    const error = await failureOf(silent.sample(request(), { signal: AbortSignal.abort() }));
    expect(error.failure.code).toBe("cancelled");
    let look!: () => void;
    const looked = new Promise<void>((resolve) => {
      look = resolve;
    });
    const engine = engineOf(
      () => {
        look();
        return new Promise(() => undefined);
      },
      { endpoint: "auto", clock: createManualClock() },
    );
    const controller = new AbortController();
    const cancelled = failureOf(engine.sample(request({ requestId: "a" }), { signal: controller.signal }));
    await looked;
    controller.abort();
    expect((await cancelled).failure.code).toBe("cancelled");
    expect(engine.endpoint).toBeNull();
  });
});

describe("createVllmEngine() as control", () => {
  test.each([
    ["0.32.0", false, [5], '{"finish_reason":"abort","stop_reason":null}'],
    ["0.32.0", true, [5], '{"finish_reason":"abort"}'],
    ["0.12.0", false, [5], '{"finish_reason":"abort"}'],
    // The server sends no chunk without tokens, so the stream ends without a finish reason.
    ["0.12.0", true, [5], null],
    ["0.10.2", false, [], null],
    ["0.10.2", true, [5], null],
  ] as const)(
    "abort() ends a running request with the tokens it can have (vLLM %s, stream: %s)",
    async (version, stream, tokens, raw) => {
      const { sampler, begun } = stuckSampler();
      const front = createVllmFront({ sampler, version });
      const engine = engineOn(front, { stream, endpoint: version === "0.10.2" ? "completions" : "generate" });
      const sampled = engine.sample(request({ requestId: "r1" }));
      await begun;
      await engine.abort("unknown");
      await engine.abort("r1");
      const result = await sampled;
      expect(result.finish).toEqual({ reason: "abort", matched: null, raw });
      expect([...result.sampledTokens]).toEqual(tokens);
      expect(result.logprobs).toHaveLength(tokens.length);
      await idle(front);
    },
  );

  test("abort() closes the connection of a request that goes on all the same", async () => {
    const { sampler, begun } = stuckSampler();
    const clock = createManualClock();
    const front = createVllmFront({ sampler });
    // The abort reaches a different process of the server than the one that runs the request.
    const engine = engineOf(
      (asked) => (asked.url.endsWith("/abort_requests") ? Response.json({ status: "aborted" }) : front.handle(asked)),
      { clock },
    );
    const sampled = engine.sample(request({ requestId: "r1" }));
    await begun;
    await engine.abort("r1");
    await clock.advance(5000);
    expect((await sampled).finish).toEqual({ reason: "abort", matched: null, raw: null });
    await idle(front);
    expect(clock.sleeping).toBe(0);
  });

  test("pause() in mode abort ends what runs and holds what comes until continue()", async () => {
    const { sampler, begun } = stuckSampler();
    let isPaused = false;
    const front = createVllmFront({
      sampler: { sample: (asked, options) => (isPaused ? echo : sampler).sample(asked, options) },
    });
    const engine = engineOn(front);
    const running = engine.sample(request({ requestId: "a" }));
    await begun;
    expect(await engine.isPaused()).toBe(false);
    await engine.pause("abort");
    isPaused = true;
    expect(await engine.isPaused()).toBe(true);
    expect((await running).finish.reason).toBe("abort");
    const waiting = engine.sample(request({ requestId: "c", prompt: [4] }));
    expect(front.load().running).toBe(0);
    await engine.continue();
    expect((await waiting).sampledTokens).toEqual(Uint32Array.of(4, 9));
  });

  test("pause() in mode in-place keeps what runs, in mode wait it resolves when that has ended", async () => {
    let finish!: () => void;
    let begin!: () => void;
    const finished = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const sampler = createFunctionSampler(async () => {
      begin();
      await finished;
      return { ids: [9] };
    });
    const engine = engineOn(createVllmFront({ sampler }));
    const running = engine.sample(request());
    await begun;
    await engine.pause("in-place");
    finish();
    await engine.continue();
    expect((await running).finish.reason).toBe("stop");
    await engine.pause("wait");
    expect(await engine.isPaused()).toBe(true);
    expect((await failureOf(engine.pause("retract"))).message).toContain('use "abort" or "in-place"');
  });

  test("health() is false when the server says so, and rejects when it cannot be asked", async () => {
    const answering = (status: number) => engineOf(() => new Response(null, { status }));
    expect(await answering(200).health()).toBe(true);
    expect(await answering(503).health()).toBe(false);
    expect((await failureOf(answering(401).health())).failure.code).toBe("unauthorized");
    expect((await failureOf(answering(404).health())).message).toContain("check its address");
  });

  test.each([
    ["pause", (engine: ReturnType<typeof engineOf>) => engine.pause("abort")],
    ["continue", (engine: ReturnType<typeof engineOf>) => engine.continue()],
    ["isPaused", (engine: ReturnType<typeof engineOf>) => engine.isPaused()],
  ])("%s() says what a server without training calls is started with", async (_name, act) => {
    const missing = await failureOf(act(engineOf(() => new Response("", { status: 404 }))));
    expect(missing.failure).toMatchObject({ code: "bad-request", retryable: false });
    expect(missing.message).toContain("start it with VLLM_SERVER_DEV_MODE=1");
    const refused = await failureOf(act(engineOf(() => Response.json({ error: "no" }, { status: 500 }))));
    expect(refused.failure).toMatchObject({ code: "server-error", retryable: true });
  });
});

describe("createVllmEngine() warns of raw logprobs", () => {
  const warningsOf = async (
    sampling: Parameters<typeof request>[0],
    options: { readonly logprobsMode?: "raw" | "processed" } = {},
  ): Promise<readonly VllmWarning[]> => {
    const warnings: VllmWarning[] = [];
    const engine = engineOn(createVllmFront({ sampler: echo }), { ...options, onWarning: (one) => warnings.push(one) });
    await engine.sample(request(sampling));
    await engine.sample(request(sampling));
    return warnings;
  };

  test.each([
    [{ temperature: 0.7 }, "temperature"],
    [{ topP: 0.9, topK: 20 }, "top_p, top_k"],
    [{ minP: 0.1, repetitionPenalty: 1.1 }, "min_p, repetition_penalty"],
    [{ extra: { frequency_penalty: 1 } }, "frequency_penalty"],
  ])("once, when sampling distorts: %j", async (sampling, words) => {
    const warnings = await warningsOf({ sampling });
    expect(warnings).toHaveLength(1);
    expect(warnings[0]?.code).toBe("raw-logprobs");
    expect(warnings[0]?.message).toContain(`${words} changes what is sampled`);
    expect(warnings[0]?.message).toContain("--logprobs-mode processed_logprobs");
  });

  test("never when it samples from the policy itself, or when the server processes", async () => {
    expect(await warningsOf({ sampling: { extra: { top_k: -1, presence_penalty: 0 } } })).toEqual([]);
    expect(await warningsOf({ sampling: { temperature: 0.7 } }, { logprobsMode: "processed" })).toEqual([]);
  });
});

describe("createVllmEngine() refuses settings that cannot work", () => {
  test.each([
    [{ url: "http://h:1/base/inference/v1/generate" }, "it names an endpoint; write http://h:1/base."],
    [{ model: "" }, "model is empty"],
    [{ routingHeader: "x session" }, "expected the name of a header"],
    [{ endpoint: "chat" as "generate" }, 'endpoint is "chat", expected'],
    [{ logprobsMode: "cooked" as "raw" }, 'logprobsMode is "cooked", expected'],
  ])("%j", (options, words) => {
    const make = (): unknown => createVllmEngine(options);
    expect(make).toThrow(ConfigurationError);
    expect(make).toThrow(words);
  });
});
