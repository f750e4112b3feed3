// Network faults between real sockets: a fault on the first call of an episode, which then
// continues, and one on every call, which fails the episode at the engine in bounded time. The
// table of the servers' own faults is in `fault-table.test.ts`.

import { afterEach, describe, expect, it } from "vitest";
import type { Engine } from "../../core/index.ts";
import { createGuardedEngine } from "../../engines/guarded/index.ts";
import { createSglangEngine } from "../../engines/sglang/index.ts";
import { createVllmEngine } from "../../engines/vllm/index.ts";
import type { Clock } from "../../lib/clock.ts";
import { createManualClock } from "../../lib/clock.test-helper.ts";
import {
  createFunctionSampler,
  createSglangFront,
  createToxicProxy,
  createVllmFront,
  type FrontListener,
  type Toxic,
} from "../../testing/index.ts";
import { conservationViolations } from "../../trajectories/index.ts";
import { count, instantClock, leave, task, tokenizer, world } from "./episode-world.test-helper.ts";
import { episodeSamples, runEpisode } from "../index.ts";

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

const texts = [count(3), leave].map((text) => tokenizer.encode(`${text}<|im_end|>`));
const sampler = createFunctionSampler(({ requestId }) => ({
  ids: texts[Number(/_t(\d+)_r\d+$/.exec(requestId)?.[1])]!,
}));

type Case = {
  /** Path of the sampling endpoint. */
  readonly path: string;
  readonly open: (url: string, options: { readonly clock: Clock }) => Engine;
  readonly listen: () => Promise<FrontListener>;
};

const limits = { timeoutMs: 4000, firstByteTimeoutMs: 1500 };
const engines: Readonly<Record<string, Case>> = Object.fromEntries(
  [false, true].flatMap((stream): [string, Case][] => {
    const how = stream ? "streamed" : "whole";
    return [
      [
        `sglang, ${how}`,
        {
          path: "/generate",
          open: (url, options) => createSglangEngine({ url, stream, ...limits, ...options }),
          listen: () => createSglangFront({ sampler }).listen(),
        },
      ],
      [
        `vllm, ${how}`,
        {
          path: "/inference/v1/generate",
          open: (url, options) => createVllmEngine({ url, stream, ...limits, ...options, endpoint: "generate" }),
          listen: () => createVllmFront({ sampler }).listen(),
        },
      ],
    ];
  }),
);

/**
 * Runs an episode through a proxy that disturbs a given number of sampling calls. Sockets are real,
 * time is simulated: bytes that the proxy delays arrive as its clock advances, and deadlines of the
 * engine expire only at a call that is delayed forever.
 */
async function runScript(
  name: string,
  toxic: Toxic,
  options: { readonly times: number; readonly isTooLate?: boolean },
) {
  const { path, open, listen } = engines[name]!;
  const { times, isTooLate = false } = options;
  const server = await listen();
  cleanups.push(() => server.close());
  const [engineClock, proxyClock] = [createManualClock(), createManualClock()];
  let left = times;
  const proxy = await createToxicProxy({
    targetPort: server.port,
    clock: proxyClock,
    choose: (line) => {
      if (!line.startsWith(`POST ${path} `) || left-- <= 0) return { type: "none" };
      if (isTooLate) void engineClock.advance(limits.firstByteTimeoutMs);
      return toxic;
    },
  });
  cleanups.push(() => proxy.close());
  const engine = open(proxy.url, { clock: engineClock });
  cleanups.push(() => engine.close());
  const { parts } = world([], ["Count to 3."]);
  const retry = { maxAttempts: 3, maxElapsedMs: 5000, baseDelayMs: 2, maxDelayMs: 4 };
  let isOver = false;
  const playing = runEpisode(task, { ...parts, engine }, { retry, clock: instantClock() }).finally(() => {
    isOver = true;
  });
  const over = (): boolean => isOver;
  const isHeldBack = (): boolean => isTooLate;
  while (!isHeldBack() && !over()) await proxyClock.advance(20);
  const episode = await playing;
  const samples = episodeSamples(episode);
  expect(conservationViolations(episode.trajectory, samples)).toEqual([]);
  const attempts = episode.events.flatMap((event) => (event.type === "turn" ? event.attempts : []));
  return { episode, codes: attempts.map(({ failure }) => failure.code), samples: samples.samples };
}

// The full suite runs the other two of the four with the same faults.
const names = process.env["FULL"] === "1" ? Object.keys(engines) : ["sglang, whole", "vllm, streamed"];

describe.each(names)("engine %s", (name) => {
  it.each<[string, Toxic]>([
    ["latency", { type: "latency", ms: 100 }],
    ["a narrow line", { type: "bandwidth", bytesPerSecond: 5000 }],
    ["a head that comes late", { type: "slow-head", ms: 1000 }],
  ])("%s is only slow", async (_fault, toxic) => {
    const { episode, codes } = await runScript(name, toxic, { times: 2 });
    expect(episode).toMatchObject({ outcome: "completed", reward: 1 });
    expect(codes).toEqual([]);
  });

  it.each<[string, Toxic, string]>([
    ["a reset before the answer", { type: "reset", afterBytes: 0 }, "connection-lost"],
    ["a reset in the middle of the body", { type: "reset", afterBytes: 400 }, "connection-lost"],
    ["a truncated body", { type: "truncate", afterBytes: 400 }, "connection-lost"],
    ["a truncated head", { type: "truncate", afterBytes: 40 }, "connection-lost"],
    ["a connection that is half open", { type: "half-open" }, "timeout"],
    ["a head that comes too late", { type: "slow-head", ms: 2000 }, "timeout"],
    ["a line that is too narrow", { type: "bandwidth", bytesPerSecond: 5 }, "timeout"],
  ])("%s is met with another try; for ever, it ends the episode at the engine", async (_fault, toxic, code) => {
    const isTooLate = code === "timeout";
    const once = await runScript(name, toxic, { times: 1, isTooLate });
    expect(once.episode).toMatchObject({ outcome: "completed", reward: 1, failure: null });
    expect(once.codes).toEqual([code]);
    expect(once.samples).toHaveLength(1);
    const always = await runScript(name, toxic, { times: Infinity, isTooLate });
    expect(always.episode).toMatchObject({ outcome: "failed", reward: null, failure: { boundary: "engine", code } });
    expect(always.samples).toEqual([]);
  });
});

it("two servers of which one dies: every episode ends well, on the other", async () => {
  const [one, two] = await Promise.all(
    [createSglangFront({ sampler }), createSglangFront({ sampler })].map((front) => front.listen()),
  );
  cleanups.push(
    () => one!.close(),
    () => two!.close(),
  );
  const changes: string[] = [];
  const servers = [one!, two!].map(({ url }) => createSglangEngine({ url, controlTimeoutMs: 100 }));
  const engine = createGuardedEngine(servers, {
    failures: 2,
    onChange: ({ server, state }) => changes.push(`${server} ${state}`),
  });
  cleanups.push(() => engine.close());
  const { parts } = world([], []);
  const retry = { maxAttempts: 12, maxElapsedMs: 10_000, baseDelayMs: 2, maxDelayMs: 20 };
  const playOne = (index: number) => {
    const { user } = world([], ["Count to 3."]).parts;
    return runEpisode(task, { ...parts, user, engine }, { retry, episodeId: `e${index}` });
  };
  const before = await Promise.all(Array.from({ length: 10 }, (_, index) => playOne(index)));
  await one!.close();
  const after = await Promise.all(Array.from({ length: 16 }, (_, index) => playOne(index)));
  for (const { outcome, reward } of [...before, ...after]) expect([outcome, reward]).toEqual(["completed", 1]);
  expect(changes).toEqual([`${one!.url} open`]);
});
