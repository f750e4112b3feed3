import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createManualClock } from "./manual-clock.ts";
import { noRetry, retry, type RetryPolicy } from "./retry.ts";

const policy: RetryPolicy = { maxAttempts: 5, maxElapsedMs: 10_000, baseDelayMs: 100, maxDelayMs: 400 };
const always = () => ({ retry: true, afterMs: null });

/** Plays `faults` failing attempts and then succeeds; records when each began. */
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
    const result = retry(action, policy, { judge: always, clock, random: () => 1 });
    await clock.drain();
    expect(await result).toBe("done");
    expect(begun).toEqual([0, 100, 300, 700, 1100]);
  });

  it("draws each delay from the upper half of its backoff, with an asked-for wait as floor", async () => {
    await fc.assert(
      fc.asyncProperty(fc.double({ min: 0, max: 0.999, noNaN: true }), fc.nat(1000), async (draw, afterMs) => {
        const clock = createManualClock();
        const { begun, action } = scripted(clock, 1);
        const result = retry(action, policy, { judge: () => ({ retry: true, afterMs }), clock, random: () => draw });
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
        judge: always,
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
      { judge: () => ({ retry: true, afterMs: 250 }), clock, random: () => 1 },
    );
    const settled = expect(result).rejects.toThrow("fault 2");
    await clock.drain();
    await settled;
    expect(begun).toEqual([0, 350]);
  });

  it("tries once when the judge or the policy says so", async () => {
    const clock = createManualClock();
    const refused = scripted(clock, 9);
    await expect(
      retry(refused.action, policy, { judge: () => ({ retry: false, afterMs: null }), clock }),
    ).rejects.toThrow("fault 1");
    const single = scripted(clock, 9);
    await expect(retry(single.action, noRetry, { judge: always, clock })).rejects.toThrow("fault 1");
    expect([refused.begun.length, single.begun.length]).toEqual([1, 1]);
  });

  it("stops waiting with the signal's reason and leaves no sleeper", async () => {
    const clock = createManualClock();
    const controller = new AbortController();
    const { begun, action } = scripted(clock, 9);
    const result = retry(action, policy, { judge: always, clock, signal: controller.signal });
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
    await expect(retry(action, policy, { judge: always, clock, signal })).rejects.toThrow("before");
    await expect(retry(action, { ...policy, maxAttempts: 0 }, { judge: always, clock })).rejects.toThrow(RangeError);
    await expect(retry(action, { ...policy, maxDelayMs: NaN }, { judge: always, clock })).rejects.toThrow(RangeError);
    expect(begun).toEqual([]);
  });
});
