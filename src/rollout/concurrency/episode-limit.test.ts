import { describe, expect, it } from "vitest";
import type { EngineLoad, EpisodeEvent } from "../../core/index.ts";
import { createManualClock } from "../../lib/clock.test-helper.ts";
import { runRollout } from "../index.ts";
import { openedStore, plan, runnerOf, rows } from "../scripted-run.test-helper.ts";
import { type AdaptiveConcurrency, createEpisodeLimit } from "./episode-limit.ts";

const idle: EngineLoad = { servers: 1, running: 1, waiting: 0, kvUse: 0.1 };

function started(setting: AdaptiveConcurrency, running: () => number) {
  const clock = createManualClock();
  const limit = createEpisodeLimit(setting, clock);
  const changes: number[] = [];
  limit.start({ running, onChange: () => changes.push(limit.current) });
  return { clock, limit, changes };
}

const refused: EpisodeEvent = {
  type: "agent-reply",
  turn: 0,
  attempts: [
    {
      failure: { boundary: "engine", code: "overloaded", message: "busy", retryable: true, cause: null },
      waitedMs: 1,
    },
  ],
  usage: { modelCalls: 1, inputTokens: 1, outputTokens: 1, cost: 0 },
  durationMs: 1,
};

describe("createEpisodeLimit()", () => {
  it("stays at a number, and queries no server", () => {
    const clock = createManualClock();
    const limit = createEpisodeLimit(7, clock);
    limit.start({ running: () => 7, onChange: () => undefined });
    limit.observe(refused);
    expect([limit.current, clock.sleeping]).toEqual([7, 0]);
    expect(() => createEpisodeLimit(0, clock)).toThrow("it is 0 to 0");
  });

  it("cuts when the server refuses calls or reports a full cache, and tells who obeys", async () => {
    let load = idle;
    const source = { load: async () => load };
    const { clock, limit, changes } = started({ floor: 2, ceiling: 64, start: 40, load: source }, () => 20);
    limit.observe(refused);
    await clock.advance(2_000);
    expect(limit.current).toBe(14);
    await clock.advance(2_000);
    load = { ...idle, kvUse: 1 };
    limit.stop();
    expect(changes).toEqual([14]);
    expect(clock.sleeping).toBe(0);
  });

  it("goes by tokens alone when the server cannot be queried, and leaves one alone that reports nothing", async () => {
    let asked = 0;
    const silent = { load: async () => (asked++, null) };
    const first = started({ floor: 2, ceiling: 64, load: silent }, () => 16);
    await first.clock.advance(10_000);
    expect(asked).toBe(1);
    first.limit.stop();

    const failing = {
      load: async () => {
        asked++;
        throw new Error("gone");
      },
    };
    const second = started({ floor: 2, ceiling: 64, load: failing, intervalMs: 1_000 }, () => 16);
    await second.clock.advance(5_000);
    expect(asked).toBe(6);
    second.limit.stop();

    const hanging = started({ floor: 2, ceiling: 64, load: { load: () => new Promise(() => undefined) } }, () => 16);
    hanging.limit.observe(refused);
    await hanging.clock.advance(8_000);
    expect(hanging.limit.current).toBe(11);
    hanging.limit.stop();
    expect(hanging.clock.sleeping).toBe(0);
  });

  it("drives a run: more episodes where they bring more tokens, never above the ceiling, and no timer afterwards", async () => {
    const { runEpisode, clock, log } = runnerOf(() => ({ outcome: "completed", reward: 1, ms: 500 }));
    // Calls that are never refused.
    const quiet: typeof runEpisode = (task, place) => {
      const onEvent = (event: EpisodeEvent) =>
        place.onEvent(event.type === "turn" ? { ...event, attempts: [] } : event);
      return runEpisode(task, { ...place, onEvent });
    };
    const concurrency = { floor: 2, ceiling: 12, start: 4, load: { load: async () => idle } };
    const running = runRollout(
      plan(60, 5),
      { runEpisode: quiet, store: await openedStore(), exportSamples: rows },
      { clock, concurrency },
    );
    await clock.drain();
    expect(await running).toMatchObject({ episodesFinished: 300, concurrency: 12 });
    expect(log.mostRunning).toBe(12);
    expect(clock.sleeping).toBe(0);
  });
});
