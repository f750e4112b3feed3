import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createManualClock } from "./manual-clock.ts";
import { createSemaphore } from "./semaphore.ts";

describe("createSemaphore()", () => {
  it("never runs more than its limit, loses nobody and keeps the order of arrival", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 4 }),
        fc.array(fc.nat(20), { minLength: 1, maxLength: 12 }),
        async (limit, durations) => {
          const clock = createManualClock();
          const semaphore = createSemaphore(limit);
          const begun: number[] = [];
          let running = 0;
          let most = 0;
          const all = durations.map((ms, index) =>
            semaphore.run(async () => {
              begun.push(index);
              most = Math.max(most, ++running);
              await clock.sleep(ms);
              running--;
              return index;
            }),
          );
          await clock.drain();
          expect(await Promise.all(all)).toEqual(durations.map((_, index) => index));
          expect(begun).toEqual(durations.map((_, index) => index));
          expect(most).toBe(Math.min(limit, durations.length));
          expect([semaphore.running, semaphore.waiting]).toEqual([0, 0]);
        },
      ),
      { numRuns: 30, seed: 2 },
    );
  });

  it("gives the permit back when the action fails", async () => {
    const semaphore = createSemaphore(1);
    await expect(semaphore.run(() => Promise.reject(new Error("broken")))).rejects.toThrow("broken");
    expect(await semaphore.run(() => Promise.resolve("next"))).toBe("next");
  });

  it("forgets a waiter whose signal aborts, without losing the permit", async () => {
    const semaphore = createSemaphore(1);
    const release = await semaphore.acquire();
    const controller = new AbortController();
    const impatient = expect(semaphore.acquire(controller.signal)).rejects.toThrow("gone");
    const patient = semaphore.acquire();
    expect(semaphore.waiting).toBe(2);
    controller.abort(new Error("gone"));
    await impatient;
    expect(semaphore.waiting).toBe(1);
    release();
    release();
    (await patient)();
    expect(semaphore.running).toBe(0);
    await expect(semaphore.acquire(AbortSignal.abort(new Error("before")))).rejects.toThrow("before");
  });

  it("refuses limits that bound nothing", () => {
    for (const limit of [0, -1, 1.5, NaN]) expect(() => createSemaphore(limit)).toThrow(RangeError);
    expect(createSemaphore(Infinity).limit).toBe(Infinity);
  });
});
