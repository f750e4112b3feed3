// Behaviour that all HTTP engines share, tested against their protocol fronts and without a socket.
// Behaviour of a single engine is tested in that engine's folder.

import { describe, expect, test } from "vitest";
import { ConfigurationError } from "../core/failure.ts";
import { TokenBuffer } from "../core/token-buffer.ts";
import { createSglangEngine } from "../engines/sglang/index.ts";
import { createVllmEngine } from "../engines/vllm/index.ts";
import { createManualClock } from "../lib/clock.test-helper.ts";
import { createSglangFront, createVllmFront, type Sampler } from "../testing/index.ts";
import { apiKey, echo, failureOf, idle, request, stuckSampler } from "./engine-calls.test-helper.ts";
import { createHandlerClient } from "./handler-client.test-helper.ts";
import type { ServerEngineOptions } from "./index.ts";

type Options = ServerEngineOptions & {
  readonly url?: string;
  readonly host?: string;
  readonly port?: number;
  readonly stream?: boolean;
};

const kinds = {
  SGLang: { create: createSglangEngine, front: (sampler: Sampler) => createSglangFront({ sampler }), port: 30_000 },
  vLLM: { create: createVllmEngine, front: (sampler: Sampler) => createVllmFront({ sampler }), port: 8000 },
} as const;

describe.each(Object.keys(kinds) as (keyof typeof kinds)[])("the engine for %s", (kind) => {
  const { create, front, port } = kinds[kind];
  const engineOf = (handler: (asked: Request) => Response | Promise<Response>, options: Options = {}) => {
    const clock = options.clock === undefined ? {} : { clock: options.clock };
    const http = createHandlerClient(handler, { boundary: "engine", ...clock });
    return create({ url: "http://server", apiKey, ...options, http });
  };
  const silent = () =>
    engineOf(() => {
      throw new Error("Something was sent.");
    });

  test("reads the prompt when it is called, so that it may grow afterwards", async () => {
    const served = front(echo);
    const engine = engineOf((asked) => served.handle(asked));
    const prompt = TokenBuffer.from([7]);
    const first = engine.sample(request({ prompt, requestId: "a" }));
    prompt.append([8]);
    const second = engine.sample(request({ prompt, requestId: "b" }));
    expect((await first).sampledTokens).toEqual(Uint32Array.of(7, 9));
    expect((await second).sampledTokens).toEqual(Uint32Array.of(7, 8, 9));
  });

  test("leaves the bytes of a refused request as they are, which may still be on their way", async () => {
    const served = front(echo);
    let isRefused = false;
    const client = createHandlerClient(
      (asked) => (isRefused && asked.method === "POST" ? new Response("", { status: 503 }) : served.handle(asked)),
      { boundary: "engine" },
    );
    type Sent = { readonly bytes: Uint8Array; readonly text: string };
    const sent: Sent[] = [];
    const record: typeof client.request = (asked, limits) => {
      const { body } = asked;
      if (body instanceof Uint8Array) sent.push({ bytes: body, text: Buffer.from(body).toString() });
      return client.request(asked, limits);
    };
    const engine = create({ url: "http://server", apiKey, http: { ...client, request: record } });
    const prompt = TokenBuffer.from([7]);
    const ask = (requestId: string) => engine.sample(request({ prompt, requestId }));
    await ask("opens the endpoint");
    isRefused = true;
    await failureOf(ask("refused"));
    isRefused = false;
    await ask("answered");
    await ask("answered, too");
    const [refused, answered, last] = sent.slice(-3) as [Sent, Sent, Sent];
    expect(Buffer.from(refused.bytes).toString()).toBe(refused.text);
    expect(answered.bytes.buffer).not.toBe(refused.bytes.buffer);
    expect(last.bytes.buffer).toBe(answered.bytes.buffer);
  });

  test.each([
    ["an empty prompt", request({ prompt: [] })],
    ["a number too large for JSON", request({ sampling: { extra: { seed: 1n } } })],
  ])("refuses %s without sending anything", async (_name, asked) => {
    const served = front(echo);
    const engine = engineOf(async (sent) => {
      // vLLM's endpoint is detected with an empty body.
      if (sent.method === "POST" && (await sent.clone().text()) !== "{}") throw new Error("Something was sent.");
      return served.handle(sent);
    });
    expect((await failureOf(engine.sample(asked))).failure).toMatchObject({ code: "bad-request", retryable: false });
  });

  // A stream of several completions does not fit SGLang's frames; the tests of SGLang's folder
  // cover that.
  test.each(kind === "vLLM" ? [false, true] : [false])(
    "refuses several completions for one prompt (stream: %s)",
    async (stream) => {
      const served = front(echo);
      const engine = engineOf((asked) => served.handle(asked), { stream });
      const error = await failureOf(engine.sample(request({ sampling: { extra: { n: 2 } } })));
      expect(error.failure).toMatchObject({ code: "bad-reply", retryable: false });
      expect(error.message).toContain('leave "n" out of sampling.extra');
    },
  );

  test.each([{ timeoutMs: 1000 }, { firstByteTimeoutMs: 1000 }])(
    "gives a request up when its deadline passes, and another try may do better: %j",
    async (limits) => {
      const { sampler, begun } = stuckSampler();
      const clock = createManualClock();
      const served = front(sampler);
      const engine = engineOf((asked) => served.handle(asked), { ...limits, clock });
      const sampled = failureOf(engine.sample(request()));
      await begun;
      await clock.advance(1000);
      const error = await sampled;
      expect(error.failure).toMatchObject({ code: "timeout", retryable: true });
      expect(error.message).toContain("within 1000 ms");
      await idle(served);
      await engine.close();
      expect(clock.sleeping).toBe(0);
    },
  );

  test("is cancelled before anything is sent when its signal is aborted already", async () => {
    const engine = silent();
    const error = await failureOf(engine.sample(request(), { signal: AbortSignal.abort() }));
    expect(error.failure.code).toBe("cancelled");
    await engine.close();
  });

  test("is ready while its server is healthy and not paused, and says when it cannot be asked", async () => {
    const served = front(echo);
    const engine = engineOf((asked) => served.handle(asked));
    expect(await engine.isReady()).toBe(true);
    await engine.pause("abort");
    expect(await engine.isReady()).toBe(false);
    await engine.continue();
    expect(await engine.isReady()).toBe(true);
    expect(await engineOf(() => new Response(null, { status: 503 })).isReady()).toBe(false);
    expect((await failureOf(silent().isReady())).failure.code).toBe("connection-lost");
  });

  test.each<[Options, string]>([
    [{ url: "localhost:30000" }, "the scheme is missing"],
    [{ url: "http://h", port: 1 }, "pass only one of them"],
    [{ url: "http://h:1/v1/" }, "it names an endpoint; write http://h:1."],
    [{ port: 0 }, "port is 0, expected an integer from 1 to 65535"],
    [{ host: "http://h" }, "host is not a host name"],
    [{ url: "http://ada:sesame@proxy/base/" }, "give --engine-authorization-env AUTHORIZATION"],
    [{ apiKey, authorization: "Basic YTpi" }, "pass only one of them"],
    [{ apiKey: "" }, "it is empty"],
    [{ apiKey: `${apiKey}\n` }, "characters that headers do not allow"],
    [{ timeoutMs: 0 }, "timeoutMs is 0, expected a positive number"],
    [{ firstByteTimeoutMs: -1 }, "firstByteTimeoutMs is -1, expected a positive number"],
    [{ connectTimeoutMs: 0.5 }, "connectTimeoutMs is 0.5"],
    [{ controlTimeoutMs: Number.NaN }, "controlTimeoutMs is NaN"],
    [{ connections: 0 }, "connections is 0"],
  ])("refuses %j", (options, words) => {
    const make = (): unknown => create(options);
    expect(make).toThrow(ConfigurationError);
    expect(make).toThrow(words);
    expect(make).not.toThrow(apiKey);
  });

  test.each<[Options, string]>([
    [{}, `http://127.0.0.1:${port}`],
    [{ host: "10.0.0.1", port: 3 }, "http://10.0.0.1:3"],
    [{ host: "::1" }, `http://[::1]:${port}`],
    [{ url: "http://proxy/base/?api_key=sesame" }, "http://proxy/base"],
  ])("%j is the address %s", (options, address) => {
    expect(create(options).address).toBe(address);
  });
});
