import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createManualClock } from "./clock.test-helper.ts";
import { createSemaphore, createRateLimit, noRetry, retry, type RetryPolicy } from "./limits.ts";

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

  it("spaces by what the rate is when a caller comes", async () => {
    const clock = createManualClock();
    let perMinute = 60;
    const limit = createRateLimit(() => perMinute, clock);
    const begun: number[] = [];
    const begin = () => limit.wait().then(() => begun.push(clock.now()));
    const first = [begin(), begin()];
    perMinute = 15;
    const later = [begin(), begin()];
    await clock.drain();
    await Promise.all([...first, ...later]);
    expect(begun).toEqual([0, 1000, 2000, 6000]);
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

const policy: RetryPolicy = { maxAttempts: 5, maxElapsedMs: 10_000, baseDelayMs: 100, maxDelayMs: 400 };
const always = () => ({ retry: true, afterMs: null });

/** An action that fails `faults` times and then succeeds; records when each attempt began. */
function scripted(clock: { now(): number }, faults: number) {
  const begun: number[] = [];
  const action = async (attempt: number): Promise<string> => {
    begun.push(clock.now());
    if (attempt <= faults) throw new Error(`fault ${attempt}`);
    return "done";
  };
  return { begun, action };
}

describe("retry()", () => {
  it("doubles its delays up to the longest one", async () => {
    const clock = createManualClock();
    const { begun, action } = scripted(clock, 4);
    const result = retry(action, policy, { classify: always, clock, random: () => 1 });
    await clock.drain();
    expect(await result).toBe("done");
    expect(begun).toEqual([0, 100, 300, 700, 1100]);
  });

  it("draws each delay from the upper half of its backoff, with an asked-for wait as floor", async () => {
    await fc.assert(
      fc.asyncProperty(fc.double({ min: 0, max: 0.999, noNaN: true }), fc.nat(1000), async (draw, afterMs) => {
        const clock = createManualClock();
        const { begun, action } = scripted(clock, 1);
        const result = retry(action, policy, { classify: () => ({ retry: true, afterMs }), clock, random: () => draw });
        await clock.drain();
        await result;
        expect(begun[1]).toBeGreaterThanOrEqual(afterMs + 50);
        expect(begun[1]).toBeLessThanOrEqual(afterMs + 100);
      }),
      { numRuns: 25, seed: 1 },
    );
  });

  it("rejects with the last error once the attempts are used up, and reports every wait", async () => {
    const clock = createManualClock();
    const waits: unknown[] = [];
    const { action } = scripted(clock, 9);
    const result = retry(
      action,
      { ...policy, maxAttempts: 3 },
      {
        classify: always,
        clock,
        random: () => 1,
        onRetry: (error, context) => waits.push([(error as Error).message, context]),
      },
    );
    const settled = expect(result).rejects.toThrow("fault 3");
    await clock.drain();
    await settled;
    expect(waits).toEqual([
      ["fault 1", { attempt: 1, delayMs: 100 }],
      ["fault 2", { attempt: 2, delayMs: 200 }],
    ]);
  });

  it("does not begin a wait that would pass the bound in time", async () => {
    const clock = createManualClock();
    const { begun, action } = scripted(clock, 9);
    const result = retry(
      action,
      { ...policy, maxElapsedMs: 650 },
      { classify: () => ({ retry: true, afterMs: 250 }), clock, random: () => 1 },
    );
    const settled = expect(result).rejects.toThrow("fault 2");
    await clock.drain();
    await settled;
    expect(begun).toEqual([0, 350]);
  });

  it("tries once when the classification or the policy says so", async () => {
    const clock = createManualClock();
    const refused = scripted(clock, 9);
    await expect(
      retry(refused.action, policy, { classify: () => ({ retry: false, afterMs: null }), clock }),
    ).rejects.toThrow("fault 1");
    const single = scripted(clock, 9);
    await expect(retry(single.action, noRetry, { classify: always, clock })).rejects.toThrow("fault 1");
    expect([refused.begun.length, single.begun.length]).toEqual([1, 1]);
  });

  it("stops waiting with the signal's reason and leaves no sleeper", async () => {
    const clock = createManualClock();
    const controller = new AbortController();
    const { begun, action } = scripted(clock, 9);
    const result = retry(action, policy, { classify: always, clock, signal: controller.signal });
    const settled = expect(result).rejects.toThrow("enough");
    await clock.advance(0);
    expect(clock.sleeping).toBe(1);
    controller.abort(new Error("enough"));
    await settled;
    expect(clock.sleeping).toBe(0);
    expect(begun.length).toBe(1);
  });

  it("begins nothing when already cancelled or misconfigured", async () => {
    const clock = createManualClock();
    const { begun, action } = scripted(clock, 0);
    const signal = AbortSignal.abort(new Error("before"));
    await expect(retry(action, policy, { classify: always, clock, signal })).rejects.toThrow("before");
    await expect(retry(action, { ...policy, maxAttempts: 0 }, { classify: always, clock })).rejects.toThrow(RangeError);
    await expect(retry(action, { ...policy, maxDelayMs: NaN }, { classify: always, clock })).rejects.toThrow(
      RangeError,
    );
    expect(begun).toEqual([]);
  });
});
