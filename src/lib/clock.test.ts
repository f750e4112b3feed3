import { describe, expect, it } from "vitest";
import { systemClock } from "./clock.ts";
import { createManualClock } from "./clock.test-helper.ts";

describe("systemClock", () => {
  it("ends a sleep with the signal's reason", async () => {
    const controller = new AbortController();
    const slept = expect(systemClock.sleep(3_600_000, controller.signal)).rejects.toThrow("enough");
    controller.abort(new Error("enough"));
    await slept;
    await expect(systemClock.sleep(0, AbortSignal.abort(new Error("before")))).rejects.toThrow("before");
  });

  it("measures time that never goes back", async () => {
    const before = systemClock.now();
    await systemClock.sleep(0);
    expect(systemClock.now()).toBeGreaterThanOrEqual(before);
  });
});

describe("createManualClock()", () => {
  it("wakes sleepers in the order of their deadlines, at their deadlines", async () => {
    const clock = createManualClock();
    const woken: [string, number][] = [];
    const sleeper = async (name: string, ms: number): Promise<void> => {
      await clock.sleep(ms);
      woken.push([name, clock.now()]);
    };
    const all = Promise.all([sleeper("late", 30), sleeper("early", 10), sleeper("second", 10)]);
    await clock.advance(20);
    expect(woken).toEqual([
      ["early", 10],
      ["second", 10],
    ]);
    expect([clock.now(), clock.sleeping]).toEqual([20, 1]);
    await clock.drain();
    await all;
    expect(woken.at(-1)).toEqual(["late", 30]);
  });
});
