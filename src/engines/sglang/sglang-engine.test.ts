// The engine with the protocol front, without a socket.

import { describe, expect, test } from "vitest";
import { createFunctionSampler, createRouterFront, createSglangFront, SamplerRefusal } from "../../testing/index.ts";
import { apiKey, echo, failureOf, idle, request, stuckSampler } from "../../http/engine-calls.test-helper.ts";
import { engineOf, engineOn } from "./sglang.test-helper.ts";

describe("createSglangEngine().sample()", () => {
  test("sends the prompt and gives what was sampled", async () => {
    const engine = engineOn(createSglangFront({ sampler: echo, apiKey }));
    expect(await engine.sample(request({ prompt: [7, 8], stopTokenIds: [9] }))).toEqual({
      sampledTokens: Uint32Array.of(7, 8, 9),
      logprobs: Float32Array.of(-0.125, -0.25, -0.375),
      finish: { reason: "stop", matched: 9, raw: '{"type":"stop","matched":9}' },
      weightSpans: [{ tokenCount: 3, dispatch: "default", reply: "default" }],
      usage: { promptTokens: 2, completionTokens: 3, cachedTokens: 1 },
    });
  });

  test("sends key, request id and routing key", async () => {
    const seen: (string | null)[][] = [];
    const engine = engineOf(async (asked) => {
      const body = (await asked.json()) as { rid: string };
      seen.push([asked.headers.get("authorization"), asked.headers.get("x-smg-routing-key"), body.rid]);
      return new Response("", { status: 500 });
    });
    for (const routingKey of ["tau-bench/retail:test:17#3", "käse\n", "\ud800", null]) {
      await failureOf(engine.sample(request({ requestId: "r", routingKey })));
    }
    const bearer = `Bearer ${apiKey}`;
    expect(seen).toEqual([
      [bearer, "tau-bench/retail:test:17#3", "r"],
      [bearer, "k%C3%A4se%0A", "r"],
      [bearer, "%EF%BF%BD", "r"],
      [bearer, null, "r"],
    ]);
  });

  test.each([
    ["0.5.9", "v0", "v1"],
    ["0.5.23", "v1", "v2"],
  ] as const)(
    "records the version known at dispatch, or of 0.5.23 the one that sampled: %s",
    async (server, ...dispatched) => {
      let version = "v1";
      const sampler = createFunctionSampler(() => ({ ids: [9], weightVersion: version }));
      const engine = engineOn(createSglangFront({ sampler, weightVersion: "v0", version: server }));
      expect(await engine.weightVersion()).toBe("v0");
      const first = await engine.sample(request());
      version = "v2";
      const second = await engine.sample(request());
      expect(first.weightSpans).toEqual([{ tokenCount: 1, dispatch: dispatched[0], reply: "v1" }]);
      expect(second.weightSpans).toEqual([{ tokenCount: 1, dispatch: dispatched[1], reply: "v2" }]);
    },
  );

  test("an unknown name in extra is the server's bare 500, and the message says what it may be", async () => {
    const engine = engineOn(createSglangFront({ sampler: echo, version: "0.5.9" }));
    const error = await failureOf(engine.sample(request({ sampling: { extra: { max_tokens: 5 } } })));
    expect(error.failure).toMatchObject({ code: "server-error", retryable: true });
    expect(error.message).toContain("sampling.extra");
  });

  test("a prompt that does not fit is context-length, at exactly the server's limit", async () => {
    const engine = engineOn(createSglangFront({ sampler: echo, contextLength: 8, version: "0.5.9" }));
    const ask = (prompt: number, maxNewTokens: number | null): Promise<unknown> =>
      engine.sample(request({ prompt: new Uint32Array(prompt).fill(5), sampling: { maxNewTokens } }));
    await ask(3, 4);
    await ask(7, null);
    for (const [prompt, most] of [
      [3, 5],
      [8, null],
    ] as const) {
      const { failure } = await failureOf(ask(prompt, most));
      expect(failure).toMatchObject({ code: "context-length", retryable: false });
    }
  });

  test("a sampler's refusals keep their codes", async () => {
    const refusing = (status: 400 | 500 | 503) =>
      createSglangFront({ sampler: createFunctionSampler(() => Promise.reject(new SamplerRefusal(status, "no"))) });
    for (const stream of [false, true]) {
      const codes = await Promise.all(
        ([400, 500, 503] as const).map(
          async (status) => (await failureOf(engineOn(refusing(status), { stream }).sample(request()))).failure.code,
        ),
      );
      expect(codes).toEqual(["bad-request", "server-error", "overloaded"]);
    }
  });
});

describe("createSglangEngine() gives up a request", () => {
  test.each([false, true])("when its caller cancels, and has the server abort it (stream: %s)", async (stream) => {
    const { sampler, begun } = stuckSampler();
    const front = createSglangFront({ sampler });
    const aborted: unknown[] = [];
    const engine = engineOf(
      async (asked) => {
        if (new URL(asked.url).pathname === "/abort_request") aborted.push(await asked.clone().json());
        // A proxy hides from the server that the client disconnected.
        return front.handle(new Request(asked.url, { method: asked.method, body: asked.body, duplex: "half" }));
      },
      { stream },
    );
    const controller = new AbortController();
    const sampled = failureOf(engine.sample(request({ requestId: "r1" }), { signal: controller.signal }));
    await begun;
    controller.abort();
    expect((await sampled).failure).toMatchObject({ code: "cancelled", retryable: false });
    await engine.close();
    await idle(front);
    expect(aborted).toEqual([{ rid: "r1" }]);
  });
});

describe("createSglangEngine() as control", () => {
  test("abort() ends a running request with its partial tokens", async () => {
    const { sampler, begun } = stuckSampler();
    const engine = engineOn(createSglangFront({ sampler }));
    const sampled = engine.sample(request({ requestId: "r1" }));
    await begun;
    await engine.abort("unknown");
    await engine.abort("r1");
    const result = await sampled;
    expect(result.finish).toMatchObject({ reason: "abort", matched: null });
    expect(result.sampledTokens).toEqual(Uint32Array.of(5));
    expect(result.logprobs).toEqual(Float32Array.of(-0.5));
  });

  test("pause() in mode abort ends what runs and holds what comes until continue()", async () => {
    const { sampler, begun } = stuckSampler();
    let isPaused = false;
    const front = createSglangFront({
      sampler: { sample: (asked, options) => (isPaused ? echo : sampler).sample(asked, options) },
    });
    const engine = engineOn(front);
    const running = engine.sample(request({ requestId: "a" }));
    await begun;
    await engine.pause("abort");
    isPaused = true;
    expect((await running).finish.reason).toBe("abort");
    const held = engine.sample(request({ requestId: "b" }));
    await engine.abort("b");
    expect((await held).sampledTokens).toHaveLength(0);
    const waiting = engine.sample(request({ requestId: "c", prompt: [4] }));
    expect(front.load().running).toBe(0);
    await engine.continue();
    expect((await waiting).sampledTokens).toEqual(Uint32Array.of(4, 9));
  });

  test.each(["retract", "in-place"] as const)(
    "pause() in mode %s holds running answers until continue()",
    async (mode) => {
      let begin!: () => void;
      let finish!: () => void;
      const begun = new Promise<void>((resolve) => {
        begin = resolve;
      });
      const finished = new Promise<void>((resolve) => {
        finish = resolve;
      });
      const sampler = createFunctionSampler(async () => {
        begin();
        await finished;
        return { ids: [9] };
      });
      const front = createSglangFront({ sampler, weightVersion: "v1", version: "0.5.9" });
      const engine = engineOn(front);
      const running = engine.sample(request());
      await begun;
      await engine.pause(mode);
      finish();
      // The server answers other requests meanwhile, and gets new weights.
      const update = new Request("http://server/update_weight_version", {
        method: "POST",
        body: JSON.stringify({ new_version: "v2", abort_all_requests: false }),
      });
      await front.handle(update);
      expect(front.load()).toEqual({ running: 1, waiting: 0 });
      await engine.continue();
      expect((await running).weightSpans).toEqual([{ tokenCount: 1, dispatch: null, reply: "v2" }]);
    },
  );

  test("health() is false when the server says so, and rejects when it cannot be asked", async () => {
    const answering = (status: number) => engineOf(() => new Response(null, { status }));
    expect(await answering(200).health()).toBe(true);
    expect(await answering(503).health()).toBe(false);
    expect((await failureOf(answering(401).health())).failure.code).toBe("unauthorized");
    const absent = engineOf(() => Promise.reject(Object.assign(new Error("no"), { code: "ECONNREFUSED" })));
    expect((await failureOf(absent.health())).failure.code).toBe("unreachable");
  });

  test("weightVersion() asks under the old path when the new one is unknown", async () => {
    const old = engineOf((asked) =>
      asked.url.endsWith("/get_model_info")
        ? Response.json({ weight_version: "v3" })
        : new Response("", { status: 404 }),
    );
    expect(await old.weightVersion()).toBe("v3");
    const unversioned = engineOf(() => Response.json({}));
    expect(await unversioned.weightVersion()).toBeNull();
    const garbled = engineOf(() => new Response("<html>"));
    expect((await failureOf(garbled.weightVersion())).failure.code).toBe("bad-reply");
  });

  test.each([
    ["abort", (engine: ReturnType<typeof engineOf>) => engine.abort("r")],
    ["pause", (engine: ReturnType<typeof engineOf>) => engine.pause("abort")],
    ["continue", (engine: ReturnType<typeof engineOf>) => engine.continue()],
  ])("%s() rejects when the server refuses", async (_name, act) => {
    const engine = engineOn(createSglangFront({ sampler: echo, adminApiKey: "another" }));
    expect((await failureOf(act(engine))).failure.code).toBe("unauthorized");
  });
});

describe("createSglangEngine() behind a router", () => {
  const hosts = ["http://w0:1", "http://w1:1", "http://w2:1"];

  /** Three workers behind a router, each answering with its own number. */
  function cluster(options: { readonly listing?: "new" | "old"; readonly unhealthy?: number } = {}) {
    const told: string[] = [];
    const fronts = hosts.map((_, worker) =>
      createSglangFront({ sampler: createFunctionSampler(() => ({ ids: [worker + 4, 9] })), apiKey }),
    );
    const workers = hosts.map((url, worker) => ({
      // The address in the notation of a router that knows data-parallel ranks.
      url: worker === 1 ? `${url}@0` : url,
      isHealthy: worker !== options.unhealthy,
      handle: (asked: Request) => fronts[worker]!.handle(asked),
    }));
    const router = createRouterFront({ workers, listing: options.listing ?? "new" });
    const engine = engineOf(
      (asked) => {
        const { host, pathname } = new URL(asked.url);
        if (host === "router") return router.handle(asked);
        told.push(`${host}${pathname}`);
        if (hosts.findIndex((url) => url.endsWith(host)) === options.unhealthy) throw new Error("down");
        return fronts[hosts.indexOf(`http://${host}`)]!.handle(asked);
      },
      { url: "http://router" },
    );
    return { engine, told };
  }

  test("the same routing key reaches the same worker", async () => {
    const { engine } = cluster();
    const ask = async (routingKey: string): Promise<number | undefined> =>
      (await engine.sample(request({ routingKey, requestId: routingKey }))).sampledTokens[0];
    const first = await Promise.all(["a", "b", "c", "d"].map(ask));
    expect(await Promise.all(["a", "b", "c", "d"].map(ask))).toEqual(first);
    expect(new Set(first).size).toBeGreaterThan(1);
  });

  test.each(["new", "old"] as const)("abort, pause and continue reach every worker (%s listing)", async (listing) => {
    const { engine, told } = cluster({ listing });
    await engine.abort("r");
    await engine.pause("abort");
    await engine.continue();
    const paths = ["/abort_request", "/pause_generation", "/continue_generation"];
    expect(told).toEqual(paths.flatMap((path) => ["w0:1", "w1:1", "w2:1"].map((host) => `${host}${path}`)));
  });

  test("workers() lists them with the router's opinion; a plain server lists itself", async () => {
    const { engine } = cluster({ unhealthy: 2 });
    expect(await engine.workers()).toEqual([
      { url: "http://w0:1", isHealthy: true },
      { url: "http://w1:1", isHealthy: true },
      { url: "http://w2:1", isHealthy: false },
    ]);
    const plain = engineOn(createSglangFront({ sampler: echo }));
    expect(await plain.workers()).toEqual([{ url: "http://server", isHealthy: null }]);
  });

  test("a worker that the router calls unhealthy may be out of reach; any other may not", async () => {
    await expect(cluster({ unhealthy: 1 }).engine.pause("abort")).resolves.toBeUndefined();
    const { engine } = cluster();
    const broken = engineOf(
      (asked) =>
        asked.url.startsWith("http://w1") ? new Response("", { status: 500 }) : Response.json({ urls: hosts }),
      { url: "http://router" },
    );
    expect((await failureOf(broken.continue())).message).toContain("http://w1:1/continue_generation");
    await engine.close();
  });

  test.each([
    ["no list", {}],
    ["an entry without an address", { workers: [{}] }],
    ["an address of another protocol", { urls: ["grpc://w:1"] }],
  ])("a listing with %s is refused", async (_name, listing) => {
    const engine = engineOf(() => Response.json(listing));
    expect((await failureOf(engine.workers())).failure.code).toBe("bad-reply");
  });
});

describe("behind a router", () => {
  const paths = (known: Readonly<Record<string, Response | (() => Response)>>) => {
    const asked: string[] = [];
    const handler = (sent: Request): Response => {
      const { pathname } = new URL(sent.url);
      asked.push(pathname);
      const answer = known[pathname];
      if (answer === undefined) return new Response("", { status: 404 });
      return typeof answer === "function" ? answer() : answer.clone();
    };
    return { asked, handler };
  };
  const status =
    (code: number): (() => Response) =>
    () =>
      new Response("", { status: code });

  test.each([
    ["a router with a worker", { "/readiness": status(200), "/health": status(200) }, true],
    [
      "a router without a worker, which calls itself healthy",
      { "/readiness": status(503), "/health": status(200) },
      false,
    ],
    ["a server", { "/ready": status(200), "/health": status(200) }, true],
    ["a paused server", { "/ready": status(503), "/health": status(200) }, false],
    ["a server that takes requests and is not healthy", { "/ready": status(200), "/health": status(503) }, false],
    ["an older server", { "/health": status(200) }, true],
    ["an older server that loads", { "/health": status(503) }, false],
    [
      "a gateway that forbids what it does not know",
      { "/readiness": status(403), "/ready": status(403), "/health": status(200) },
      true,
    ],
    [
      "a gateway that breaks on what it does not know",
      { "/readiness": status(500), "/ready": status(500), "/health": status(200) },
      true,
    ],
    [
      "a gateway whose server is gone",
      { "/readiness": status(502), "/ready": status(502), "/health": status(502) },
      false,
    ],
  ])("%s", async (_name, known, isReady) => {
    expect(await engineOf(paths(known).handler).isReady()).toBe(isReady);
  });

  test("says when it may not ask for readiness", async () => {
    const error = await failureOf(engineOf(() => new Response("", { status: 401 })).isReady());
    expect(error.failure.code).toBe("unauthorized");
  });

  test("a sampling parameter that the router would leave out is refused before anything is sampled", async () => {
    const workers = (): Response => Response.json({ workers: [{ url: "http://worker", is_healthy: true }] });
    const { asked, handler } = paths({ "/workers": workers });
    const engine = engineOf(handler);
    const biased = { sampling: { extra: { logit_bias: { 5: 1 }, frequency_penalty: 1, bogus: 1 } } };
    const { failure } = await failureOf(engine.sample(request(biased)));
    expect(failure).toMatchObject({ code: "bad-request", retryable: false });
    expect(failure.message).toContain("its router leaves logit_bias, bogus out in silence");
    expect(asked).toEqual(["/workers"]);
    expect(await engine.droppedParameters(["frequency_penalty", "stop_regex"])).toEqual(["stop_regex"]);
  });

  test("a server without a router is asked once, and gets every parameter", async () => {
    const front = createSglangFront({ sampler: echo, apiKey });
    const asked: string[] = [];
    const engine = engineOf((sent) => {
      asked.push(new URL(sent.url).pathname);
      return front.handle(sent);
    });
    const biased = { sampling: { extra: { logit_bias: { 5: 1 } } } };
    for (const requestId of ["a", "b"]) await engine.sample(request({ ...biased, requestId }));
    expect(asked.filter((path) => path !== "/generate")).toEqual(["/workers", "/list_workers"]);
    expect(await engine.droppedParameters(["logit_bias"])).toEqual([]);
  });
});
