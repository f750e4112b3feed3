import { describe, expect, test } from "vitest";
import { createManualClock } from "../lib/clock.ts";
import { DeadlineQueue } from "./deadline-queue.ts";

describe("DeadlineQueue", () => {
  test("calls back each deadline at its end, and those taken back never, on one timer", async () => {
    const clock = createManualClock();
    const queue = new DeadlineQueue(clock, 100);
    const seen: string[] = [];
    const add = (name: string): (() => void) => queue.add(() => seen.push(`${name} at ${clock.now()}`));
    add("first");
    await clock.advance(30);
    const takeBack = add("taken back");
    await clock.advance(30);
    add("last");
    expect(clock.sleeping).toBe(1);
    takeBack();
    await clock.advance(39);
    expect(seen).toEqual([]);
    await clock.drain();
    expect(seen).toEqual(["first at 100", "last at 160"]);
    expect(clock.sleeping).toBe(0);
  });

  test("does not sleep for nobody, and wakes for whoever comes later", async () => {
    const clock = createManualClock();
    const queue = new DeadlineQueue(clock, 100);
    queue.add(() => undefined)();
    await clock.advance(1);
    expect(clock.sleeping).toBe(0);
    const seen: number[] = [];
    // One turn of the event loop after another is served by the same timer, and still ends in time.
    queue.add(() => undefined)();
    queue.add(() => seen.push(clock.now()));
    await clock.drain();
    expect(seen).toEqual([101]);
  });

  test("a deadline that begins while others end is kept", async () => {
    const clock = createManualClock();
    const queue = new DeadlineQueue(clock, 100);
    const seen: number[] = [];
    const again = (): void => {
      seen.push(clock.now());
      if (seen.length < 3) queue.add(again);
    };
    queue.add(again);
    await clock.drain();
    expect(seen).toEqual([100, 200, 300]);
    expect(clock.sleeping).toBe(0);
  });
});
