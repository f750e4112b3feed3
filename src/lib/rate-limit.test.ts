import { describe, expect, it } from "vitest";
import { createManualClock } from "./manual-clock.ts";
import { createRateLimit } from "./rate-limit.ts";

describe("createRateLimit()", () => {
  it("spaces beginnings evenly, in order, and owes nothing after a rest", async () => {
    const clock = createManualClock();
    const limit = createRateLimit(60, clock);
    const begun: [number, number][] = [];
    const begin = async (index: number): Promise<void> => {
      await limit.wait();
      begun.push([index, clock.now()]);
    };
    const burst = Promise.all([begin(0), begin(1), begin(2)]);
    await clock.drain();
    await burst;
    await clock.advance(5000);
    await begin(3);
    expect(begun).toEqual([
      [0, 0],
      [1, 1000],
      [2, 2000],
      [3, 7000],
    ]);
  });

  it("stops waiting when cancelled", async () => {
    const clock = createManualClock();
    const limit = createRateLimit(1, clock);
    await limit.wait();
    const controller = new AbortController();
    const waiting = expect(limit.wait(controller.signal)).rejects.toThrow("gone");
    controller.abort(new Error("gone"));
    await waiting;
    expect(clock.sleeping).toBe(0);
  });

  it("refuses rates that allow nothing", () => {
    for (const rate of [0, -1, NaN]) expect(() => createRateLimit(rate)).toThrow(RangeError);
  });
});
