// Calls under a LoRA adapter, on fronts of both servers whose sampler encodes the adapter in its
// tokens, and on replies that the real servers gave.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { AdapterControl } from "../core/adapters.ts";
import type { Engine } from "../core/engine.ts";
import { createSglangEngine } from "../engines/sglang/index.ts";
import { createVllmEngine } from "../engines/vllm/index.ts";
import { createFunctionSampler, createSglangFront, createVllmFront, type Sampler } from "../testing/index.ts";
import { failureOf, request } from "./engine-calls.test-helper.ts";
import { createHandlerClient } from "./handler-client.test-helper.ts";
import type { ServerEngineOptions } from "./index.ts";

type Handler = (asked: Request) => Response | Promise<Response>;
type Opened = Engine & AdapterControl;

const folders: Readonly<Record<string, number>> = { "/a": 10, "/b": 20 };

/** Tokens and logprobs depend on the folder of the adapter. */
const sampler: Sampler = createFunctionSampler(({ adapter, params }) => {
  const first = adapter === null || adapter === undefined ? 0 : folders[adapter.path]!;
  const ids = Array.from({ length: Math.min(4, params.maxNewTokens) }, (_, place) => first + place);
  return { ids, logprobs: ids.map((id) => -(id + 1) / 64) };
});

const adapters = { loaded: { a: "/a" }, exists: (path: string) => Object.hasOwn(folders, path) };

const products = {
  SGLang: {
    front: (options: object = {}) => createSglangFront({ sampler, adapters, ...options }),
    engine: (handler: Handler, options: ServerEngineOptions = {}): Opened =>
      createSglangEngine({
        url: "http://server",
        ...options,
        http: createHandlerClient(handler, { boundary: "engine" }),
      }),
    nameIn: (body: Record<string, unknown>) => body["lora_path"],
  },
  vLLM: {
    front: (options: object = {}) => createVllmFront({ sampler, adapters, ...options }),
    engine: (handler: Handler, options: ServerEngineOptions = {}): Opened =>
      createVllmEngine({
        url: "http://server",
        endpoint: "generate",
        logprobsMode: "processed",
        ...options,
        http: createHandlerClient(handler, { boundary: "engine" }),
      }),
    nameIn: (body: Record<string, unknown>) => body["model"],
  },
};

/** Remembers the bodies of the sampling calls. */
function listened(handle: Handler): { readonly handler: Handler; readonly bodies: Record<string, unknown>[] } {
  const bodies: Record<string, unknown>[] = [];
  const handler: Handler = async (asked) => {
    if (asked.url.endsWith("/generate")) bodies.push((await asked.clone().json()) as Record<string, unknown>);
    return handle(asked);
  };
  return { handler, bodies };
}

describe.each(Object.entries(products))("%s with an adapter", (product, { front, engine, nameIn }) => {
  const open = (options: ServerEngineOptions = {}, server = front()) => {
    const { handler, bodies } = listened((asked) => server.handle(asked));
    return { engine: engine(handler, options), bodies, server };
  };

  test("names it in every call, and its spans have the name", async () => {
    const { engine: opened, bodies } = open({ adapter: "a" });
    const result = await opened.sample(request());
    expect([...result.sampledTokens]).toEqual([10, 11, 12, 13]);
    expect(result.weightSpans).toEqual([{ tokenCount: 4, dispatch: "a", reply: "a" }]);
    const base = await opened.sample(request({ requestId: "2", sampling: { adapter: null } }));
    expect([...base.sampledTokens]).toEqual([0, 1, 2, 3]);
    expect(base.weightSpans[0]?.reply).not.toBe("a");
    expect(bodies.map(nameIn)).toEqual(["a", undefined]);
  });

  test("sends and records nothing without one", async () => {
    const { engine: opened, bodies } = open();
    const { weightSpans } = await opened.sample(request());
    expect(bodies.map(nameIn)).toEqual([undefined]);
    expect(weightSpans[0]?.reply).toBe("default");
  });

  test("streams under it", async () => {
    const { engine: opened } = open({ adapter: "a" });
    const seen: number[] = [];
    const result = await opened.sample(request(), { onTokens: (ids) => seen.push(...ids) });
    expect(seen).toEqual([10, 11, 12, 13]);
    expect(result.weightSpans).toEqual([{ tokenCount: 4, dispatch: "a", reply: "a" }]);
  });

  test("refuses a name that the server does not know", async () => {
    const { engine: opened } = open();
    const call = { sampling: { adapter: "nothing" } };
    const { failure } = await failureOf(opened.sample(request(call)));
    expect(failure).toMatchObject({ boundary: "engine", code: "bad-request", retryable: false });
    expect(failure.message).toMatch(/nothing.*load the adapter/);
    expect((await failureOf(opened.checkAdapter("nothing"))).failure.message).toMatch(/nothing/);
  });

  test("finds a server that ignores the name, and accepts one that does not", async () => {
    await open().engine.checkAdapter("a");
    const { engine: ignoring } = open({}, front({ adapters: { ignoresNames: true } }));
    const { failure } = await failureOf(ignoring.checkAdapter("a"));
    expect(failure).toMatchObject({ code: "bad-request", retryable: false });
    expect(failure.message).toMatch(/with adapter "a".*same tokens and logprobs as the base.*LoRA enabled/);
  });

  test("compares with the noise of equal calls", async () => {
    let calls = 0;
    const noisy = (size: number, signal: number): Sampler =>
      createFunctionSampler(({ adapter }) => ({
        ids: [1],
        logprobs: [-1 - (calls++ === 0 ? size : 0) - (adapter ? signal : 0)],
      }));
    // The first answer differs, as that of a prompt that is not cached yet.
    const ignoring = front({ sampler: noisy(1e-4, 0) });
    expect((await failureOf(open({}, ignoring).engine.checkAdapter("a"))).failure.code).toBe("bad-request");
    calls = 0;
    await open({}, front({ sampler: noisy(1e-4, 0.01) })).engine.checkAdapter("a");
  });

  test("checks again after the server was lost", async () => {
    let server: { handle: Handler } | null = front();
    const opened = engine(
      (asked) => {
        if (server === null) throw new Error("gone");
        return server.handle(asked);
      },
      { adapter: "a" },
    );
    await opened.sample(request());
    server = null;
    expect((await failureOf(opened.sample(request({ requestId: "2" })))).failure.retryable).toBe(true);
    server = front({ adapters: { ignoresNames: true } });
    const lost = await failureOf(opened.sample(request({ requestId: "3" })));
    expect(lost.failure.message).toMatch(/same tokens and logprobs/);
    server = front();
    expect([...(await opened.sample(request({ requestId: "4" }))).sampledTokens]).toEqual([10, 11, 12, 13]);
  });

  test("refuses a reply during which the base changed", async () => {
    const body = JSON.stringify({ new_version: "w2", abort_all_requests: false });
    const headers = { "content-type": "application/json" };
    const update = () =>
      server.handle(new Request("http://server/update_weight_version", { method: "POST", body, headers }));
    const changing: Sampler = {
      sample: async (_request, { onTokens }) => {
        onTokens([1], [-1]);
        await update();
        onTokens([2], [-1]);
        return { ids: [1, 2], logprobs: [-1, -1], finish: "length", cachedTokens: 0, weightVersion: null };
      },
    };
    const server = front({ sampler: changing, weightVersion: "w1" });
    const { failure } = await failureOf(open({ adapter: "a" }, server).engine.sample(request()));
    expect(failure).toMatchObject({ code: "server-error", retryable: true });
    expect(failure.message).toMatch(/base changed.*"a" \(w1, w2\)/);
  });

  test("loads, unloads and loads again", async () => {
    const { engine: opened } = open();
    await opened.loadAdapter({ name: "b", path: "/b" });
    await opened.loadAdapter({ name: "b", path: "/b" });
    expect([...(await opened.sample(request({ sampling: { adapter: "b" } }))).sampledTokens][0]).toBe(20);
    const other = await failureOf(opened.loadAdapter({ name: "b", path: "/a" }));
    expect(other.failure.message).toMatch(/load an adapter on .*already.*loaded/);
    expect((await failureOf(opened.loadAdapter({ name: "c", path: "/none" }))).failure.code).toBe("bad-request");
    await opened.unloadAdapter("b");
    await opened.unloadAdapter("b");
    await opened.loadAdapter({ name: "b", path: "/a" });
    expect([...(await opened.sample(request({ sampling: { adapter: "b" } }))).sampledTokens][0]).toBe(10);
  });

  test("says how to start a server without LoRA", async () => {
    const { engine: opened } = open({}, front({ adapters: null }));
    const { failure } = await failureOf(opened.loadAdapter({ name: "b", path: "/b" }));
    expect(failure.code).toBe("bad-request");
    expect((await failureOf(opened.checkAdapter("b"))).failure.message).toMatch(/load the adapter/);
    expect(product === "SGLang" || failure.message.includes("--enable-lora")).toBe(true);
  });
});

describe("replies of the real servers", () => {
  type Recorded = { readonly name: string; readonly server: string; readonly status: number; readonly reply: string };
  const text = readFileSync(new URL("../../tests/goldens/servers/adapters.jsonl", import.meta.url), "utf8");
  const records = text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Recorded);
  const replyOf = (name: string): Handler => {
    const { status, reply } = records.find((one) => one.name === name)!;
    return () => new Response(reply, { status });
  };
  const prompt = Array.from({ length: 33 }, (_, index) => index);

  test.each([
    ["sglang lora", products.SGLang],
    ["vllm lora", products.vLLM],
  ])("%s", async (name, { engine }) => {
    const result = await engine(replyOf(name), { adapter: "la" }).sample(request({ prompt, stopTokenIds: [] }));
    expect([...result.sampledTokens].slice(0, 2)).toEqual([494, 295]);
    expect(result.weightSpans).toEqual([{ tokenCount: 12, dispatch: "la", reply: "la" }]);
  });

  test("a reply of vLLM's base is not the adapter's", async () => {
    const engine = products.vLLM.engine(replyOf("vllm base"), { adapter: "la" });
    const { failure } = await failureOf(engine.sample(request({ prompt, stopTokenIds: [] })));
    expect(failure).toMatchObject({ code: "bad-reply", retryable: false });
    expect(failure.message).toMatch(/model "base" sampled it, not adapter "la"/);
  });

  test.each([
    ["sglang never loaded", products.SGLang],
    ["vllm after unload", products.vLLM],
  ])("%s", async (name, { engine }) => {
    const { failure } = await failureOf(engine(replyOf(name), { adapter: "la" }).sample(request({ prompt })));
    expect(failure).toMatchObject({ boundary: "engine", code: "bad-request", retryable: false });
    expect(failure.message).toMatch(/load the adapter/);
  });
});
