import { getEventListeners } from "node:events";

import { describe, expect, it, test } from "vitest";

import { createManualClock } from "./clock.test-helper.ts";
import { DeadlineError, DeadlineRunner, withDeadline, subscribeToAbort } from "./deadline.ts";

describe("withDeadline()", () => {
  it("passes a result or an error on and leaves no timer", async () => {
    const clock = createManualClock();
    expect(await withDeadline(async () => "done", { timeoutMs: 5, clock })).toBe("done");
    await expect(withDeadline(() => Promise.reject(new Error("own")), { timeoutMs: 5, clock })).rejects.toThrow("own");
    await clock.advance(0);
    expect(clock.sleeping).toBe(0);
  });

  it("aborts the action in time, and does not wait for one that ignores it", async () => {
    const clock = createManualClock();
    let seen: unknown = null;
    const result = withDeadline(
      (signal) => {
        signal.addEventListener("abort", () => {
          seen = signal.reason;
        });
        return new Promise<never>(() => {});
      },
      { timeoutMs: 1000, clock },
    );
    const settled = expect(result).rejects.toThrow(DeadlineError);
    await clock.advance(999);
    expect(seen).toBeNull();
    await clock.advance(1);
    await settled;
    expect(seen).toBeInstanceOf(DeadlineError);
  });

  it("rejects with the reason of the caller's signal", async () => {
    const clock = createManualClock();
    const controller = new AbortController();
    const result = withDeadline(() => new Promise<never>(() => {}), {
      timeoutMs: Infinity,
      clock,
      signal: controller.signal,
    });
    controller.abort(new Error("enough"));
    await expect(result).rejects.toThrow("enough");
    const never = withDeadline(() => Promise.resolve("begun"), { timeoutMs: 1, clock, signal: controller.signal });
    await expect(never).rejects.toThrow("enough");
    expect(clock.sleeping).toBe(0);
  });
});

describe("DeadlineRunner", () => {
  it("hands the same signal to one action after another, and another one after a deadline", async () => {
    const clock = createManualClock();
    const runner = new DeadlineRunner({ clock });
    const signals: AbortSignal[] = [];
    const note = (signal: AbortSignal): Promise<void> => Promise.resolve(void signals.push(signal));
    await runner.run(note, 5);
    await runner.run(note, 5);
    const late = runner.run((signal) => {
      signals.push(signal);
      return new Promise<never>(() => {});
    }, 5);
    const settled = expect(late).rejects.toThrow(DeadlineError);
    await clock.advance(5);
    await settled;
    await runner.run(note, 5);
    expect(new Set(signals.slice(0, 3)).size).toBe(1);
    expect(signals[2]?.aborted).toBe(true);
    expect(signals[3]?.aborted).toBe(false);
    expect(clock.sleeping).toBe(0);
  });

  it("leaves neither timer nor listener behind an action that throws", async () => {
    const clock = createManualClock();
    const controller = new AbortController();
    const runner = new DeadlineRunner({ clock, signal: controller.signal });
    const throwing = (): Promise<never> => {
      throw new Error("at once");
    };
    await expect(runner.run(throwing, 5)).rejects.toThrow("at once");
    expect(clock.sleeping).toBe(0);
    controller.abort(new Error("over"));
    await expect(runner.run(throwing, 5)).rejects.toThrow("over");
  });
});

test("subscribeToAbort() puts one listener on a signal, and calls back whoever has not left", () => {
  const controller = new AbortController();
  const seen: number[] = [];
  const leaves = Array.from({ length: 5000 }, (_, index) =>
    subscribeToAbort(controller.signal, () => seen.push(index)),
  );
  for (const leave of leaves.slice(2)) leave();
  expect(getEventListeners(controller.signal, "abort")).toHaveLength(1);
  controller.abort();
  expect(seen).toEqual([0, 1]);
});
