import { describe, expect, it } from "vitest";
import { DeadlineError, withDeadline } from "./deadline.ts";
import { createManualClock } from "./manual-clock.ts";

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
