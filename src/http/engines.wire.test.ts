// HTTP engines over real loopback sockets: the behaviour that only sockets can show, the same for
// every engine.

import { afterEach, describe, expect, test } from "vitest";
import { AttributedError } from "../core/failure.ts";
import { createSglangEngine } from "../engines/sglang/index.ts";
import { createVllmEngine } from "../engines/vllm/index.ts";
import {
  createFaultSampler,
  createSglangFront,
  createVllmFront,
  faultNames,
  garbleSglang,
  garbleVllm,
  type FaultName,
  type Sampler,
} from "../testing/index.ts";
import { echo, failureOf, request, stuckSampler } from "./engine-calls.test-helper.ts";

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

type Options = {
  readonly url: string;
  readonly stream?: boolean;
  readonly connections?: number;
  readonly timeoutMs?: number;
};

const kinds = {
  SGLang: { front: createSglangFront, open: (options: Options) => createSglangEngine(options), garble: garbleSglang },
  // New servers stream at either endpoint; whole answers come from the newer one.
  vLLM: {
    front: createVllmFront,
    open: (options: Options) => createVllmEngine({ ...options, endpoint: options.stream ? "completions" : "auto" }),
    garble: garbleVllm,
  },
} as const;

async function serve(kind: keyof typeof kinds, sampler: Sampler, options: Omit<Options, "url"> = {}) {
  const front = kinds[kind].front({ sampler });
  const listener = await front.listen();
  const engine = kinds[kind].open({ ...options, url: listener.url });
  cleanups.push(
    () => listener.close(),
    () => engine.close(),
  );
  return { front, engine, listener };
}

/** Number of sockets and timers that keep this process alive. */
function active(kind: RegExp): number {
  return process.getActiveResourcesInfo().filter((name) => kind.test(name)).length;
}

/**
 * Sockets close over several turns of the event loop; resolves when none is open, or after many
 * turns.
 */
async function settleSockets(): Promise<void> {
  for (let turn = 0; turn < 500 && active(/TCP/) > 0; turn++) {
    await new Promise((resolve) => {
      setTimeout(resolve, 1);
    });
  }
}

describe.each(Object.keys(kinds) as (keyof typeof kinds)[])("the engine for %s over sockets", (kind) => {
  test.each([false, true])("calls run at the same time and each gets its own tokens (stream: %s)", async (stream) => {
    const { engine } = await serve(kind, echo, { stream, connections: 16 });
    const prompts = Array.from({ length: 200 }, (_, index) => [100 + index, 300 + index]);
    const results = await Promise.all(
      prompts.map((prompt, index) => engine.sample(request({ prompt, requestId: `r${index}` }))),
    );
    expect(results.map((result) => [...result.sampledTokens])).toEqual(prompts.map((prompt) => [...prompt, 9]));
  });

  test.each([false, true])("a client that goes away ends its request on the server (stream: %s)", async (stream) => {
    const { sampler, begun, left } = stuckSampler();
    const { engine, front } = await serve(kind, sampler, { stream });
    const controller = new AbortController();
    const sampled = failureOf(engine.sample(request(), { signal: controller.signal }));
    await begun;
    controller.abort();
    expect((await sampled).failure.code).toBe("cancelled");
    await left;
    await engine.close();
    expect(front.load()).toEqual({ running: 0, waiting: 0 });
  });

  test("a server that dies in the middle is a lost connection, one that is gone cannot be reached", async () => {
    const { sampler, begun } = stuckSampler();
    const { engine, listener } = await serve(kind, sampler);
    const sampled = failureOf(engine.sample(request()));
    await begun;
    await listener.close();
    expect((await sampled).failure).toMatchObject({ code: "connection-lost", retryable: true });
    expect((await failureOf(engine.sample(request()))).failure).toMatchObject({ code: "unreachable", retryable: true });
  });

  const codes: Readonly<Record<FaultName, readonly string[]>> = {
    slow: ["stop"],
    "weight-bump": ["stop"],
    "bad-request": ["bad-request"],
    "rate-limited": ["overloaded"],
    "server-error": ["server-error", "connection-lost"],
    "queue-full": ["overloaded"],
    abort: ["abort"],
    cut: ["length"],
    garbage: ["bad-reply"],
    drop: ["connection-lost"],
  };

  test.each(faultNames)("meets the fault %s with its code, whole and streamed", async (fault) => {
    const sampler = createFaultSampler(echo, { seed: 1, rates: { [fault]: 1 }, slowMs: 2, garble: kinds[kind].garble });
    const { engine } = await serve(kind, sampler);
    const streaming = kinds[kind].open({ url: engine.address, stream: true });
    cleanups.push(() => streaming.close());
    const outcomeOf = async (call: ReturnType<typeof engine.sample>): Promise<string> => {
      try {
        return (await call).finish.reason;
      } catch (error) {
        return error instanceof AttributedError ? error.failure.code : String(error);
      }
    };
    const outcomes = await Promise.all(
      Array.from({ length: 40 }, (_, index) =>
        outcomeOf((index % 2 === 0 ? engine : streaming).sample(request({ requestId: `${fault}-${index}` }))),
      ),
    );
    expect(codes[fault]).toEqual(expect.arrayContaining([...new Set(outcomes)]));
    expect(sampler.counts[fault]).toBe(40);
  });

  test("under every fault at once, each call ends in tokens that fit or in one failure with a code", async () => {
    const rates = Object.fromEntries(faultNames.map((name) => [name, 0.08]));
    const sampler = createFaultSampler(echo, { seed: 2, rates, slowMs: 4, garble: kinds[kind].garble });
    const { engine } = await serve(kind, sampler, { timeoutMs: 20_000 });
    const outcomes = await Promise.all(
      Array.from({ length: 600 }, async (_, index) => {
        const prompt = [10 + (index % 50), 11, 12];
        try {
          const result = await engine.sample(request({ prompt, requestId: `all-${index}` }));
          const { length } = result.sampledTokens;
          expect([...result.sampledTokens]).toEqual([...prompt, 9].slice(0, length));
          expect(result.logprobs).toHaveLength(length);
          expect(result.weightSpans[0]?.tokenCount).toBe(length);
          return result.finish.reason;
        } catch (error) {
          if (error instanceof AttributedError) return error.failure.code;
          throw error;
        }
      }),
    );
    expect(new Set(outcomes)).toEqual(
      new Set("stop length abort bad-request overloaded server-error bad-reply connection-lost".split(" ")),
    );
  });

  test("cancelled calls, passed deadlines and closing leave nothing that keeps the process alive", async () => {
    await settleSockets();
    const timersBefore = active(/Timeout/);
    const { sampler } = stuckSampler();
    const { engine, listener, front } = await serve(kind, sampler, { timeoutMs: 60, connections: 4 });
    const patient = kinds[kind].open({ url: engine.address, timeoutMs: 3_600_000 });
    const controller = new AbortController();
    const outcomes = await Promise.allSettled([
      ...Array.from({ length: 12 }, (_, index) => engine.sample(request({ requestId: `late-${index}` }))),
      ...Array.from({ length: 12 }, (_, index) => {
        const sampled = patient.sample(request({ requestId: `given-up-${index}` }), { signal: controller.signal });
        if (index === 11) setImmediate(() => controller.abort());
        return sampled;
      }),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(Array.from({ length: 24 }, () => "rejected"));
    await Promise.all([engine.close(), patient.close()]);
    await listener.close();
    expect(front.load()).toEqual({ running: 0, waiting: 0 });
    await settleSockets();
    expect(active(/TCP/)).toBe(0);
    expect(active(/Timeout/)).toBeLessThanOrEqual(timersBefore);
  });
});
