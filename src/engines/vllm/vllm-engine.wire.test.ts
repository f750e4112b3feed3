// The engine over real loopback sockets: what only sockets can show.

import { afterEach, describe, expect, test } from "vitest";
import { AttributedError } from "../../core/failure.ts";
import {
  createFaultSampler,
  createFunctionSampler,
  createVllmFront,
  faultNames,
  garbleVllm,
  type FaultName,
  type Sampler,
  type VllmFrontOptions,
} from "../../testing/index.ts";
import { createVllmEngine } from "./vllm-engine.ts";
import type { VllmEngineOptions } from "./vllm-options.ts";
import { failureOf, request } from "./vllm.test-helper.ts";

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

async function serve(options: VllmFrontOptions, engineOptions: VllmEngineOptions = {}) {
  const front = createVllmFront(options);
  const listener = await front.listen();
  const engine = createVllmEngine({ host: "127.0.0.1", port: listener.port, ...engineOptions });
  cleanups.push(
    () => listener.close(),
    () => engine.close(),
  );
  return { front, engine, listener };
}

const echo = createFunctionSampler(({ promptIds }) => ({ ids: [...promptIds, 9] }));

/** Never answers by itself. */
function stuck(): { readonly sampler: Sampler; readonly begun: Promise<void>; readonly left: Promise<void> } {
  let begin!: () => void;
  let leave!: () => void;
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const left = new Promise<void>((resolve) => {
    leave = resolve;
  });
  const sampler: Sampler = {
    sample: (_asked, { signal, onTokens }) =>
      new Promise((resolve) => {
        onTokens([5], [-0.5]);
        begin();
        const output = { ids: [5], logprobs: [-0.5], finish: "abort", cachedTokens: 0, weightVersion: null } as const;
        signal.addEventListener(
          "abort",
          () => {
            leave();
            resolve(output);
          },
          { once: true },
        );
      }),
  };
  return { sampler, begun, left };
}

/** How many sockets and timers keep this process alive. */
function active(kind: RegExp): number {
  return process.getActiveResourcesInfo().filter((name) => kind.test(name)).length;
}

/** Sockets close over a few turns of the event loop; resolves when none is open, or after many turns. */
async function settleSockets(): Promise<void> {
  for (let turn = 0; turn < 500 && active(/TCP/) > 0; turn++) {
    await new Promise((resolve) => {
      setTimeout(resolve, 1);
    });
  }
}

describe("createVllmEngine() over sockets", () => {
  test.each([false, true])("calls run at the same time and each gets its own tokens (stream: %s)", async (stream) => {
    const { engine } = await serve({ sampler: echo }, { stream, connections: 16 });
    const prompts = Array.from({ length: 200 }, (_, index) => [100 + index, 300 + index]);
    const results = await Promise.all(
      prompts.map((prompt, index) => engine.sample(request({ prompt, requestId: `r${index}` }))),
    );
    expect(results.map((result) => [...result.sampledTokens])).toEqual(prompts.map((prompt) => [...prompt, 9]));
  });

  test.each([false, true])("a client that goes away ends its request on the server (stream: %s)", async (stream) => {
    const { sampler, begun, left } = stuck();
    const { engine, front } = await serve({ sampler }, { stream });
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
    const { sampler, begun } = stuck();
    const { engine, listener } = await serve({ sampler });
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
    const sampler = createFaultSampler(echo, { seed: 1, rates: { [fault]: 1 }, slowMs: 2, garble: garbleVllm });
    const { engine } = await serve({ sampler });
    const streaming = createVllmEngine({ url: engine.address, stream: true, endpoint: "completions" });
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
    const sampler = createFaultSampler(echo, { seed: 2, rates, slowMs: 4, garble: garbleVllm });
    const { engine } = await serve({ sampler }, { timeoutMs: 20_000 });
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
    const { sampler } = stuck();
    const { engine, listener, front } = await serve({ sampler }, { timeoutMs: 60, connections: 4 });
    const patient = createVllmEngine({ url: engine.address, timeoutMs: 3_600_000 });
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
