import { expect, test } from "vitest";

import { finish, mapInSteps, type Steps, takeTurns } from "./steps.ts";

function* spin(steps: number, milliseconds: number): Steps<string> {
  for (let step = 0; step < steps; step++) {
    const end = performance.now() + milliseconds;
    while (performance.now() < end);
    yield;
  }
  return "done";
}

test("takeTurns() serves the event loop between slices of some milliseconds", async () => {
  let served = 0;
  const serve = (): void => {
    served++;
    immediate = setImmediate(serve);
  };
  let immediate = setImmediate(serve);
  expect(await takeTurns(spin(60, 2))).toBe("done");
  clearImmediate(immediate);
  // A computation of 120 ms in slices of 5 to 7 ms.
  expect(served).toBeGreaterThanOrEqual(12);
});

test("takeTurns() runs what is short at once", () => {
  let isDone = false;
  function* short(): Steps<void> {
    yield;
    isDone = true;
  }
  void takeTurns(short());
  expect(isDone).toBe(true);
});

test("takeTurns() takes no step once its signal has aborted, and rejects with the reason", async () => {
  const controller = new AbortController();
  let steps = 0;
  function* endless(): Steps<never> {
    for (;;) {
      steps++;
      yield;
    }
  }
  const running = takeTurns(endless(), controller.signal);
  setImmediate(() => controller.abort(new Error("The session was ended.")));
  await expect(running).rejects.toThrow("The session was ended.");
  const taken = steps;
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(steps).toBe(taken);
});

test("takeTurns() rejects with what a step throws", async () => {
  function* failing(): Steps<void> {
    yield* spin(10, 2);
    throw new Error("It failed.");
  }
  await expect(takeTurns(failing())).rejects.toThrow("It failed.");
});

test("several jobs share the slice of one: the event loop turns as often, and all of them end", async () => {
  // Other programs may hold the processor for a while: the calmest of some rounds counts.
  let calmest = Infinity;
  for (let round = 0; round < 10 && calmest >= 80; round++) {
    let longest = 0;
    let last = performance.now();
    const serve = (): void => {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
      immediate = setImmediate(serve);
    };
    // The first slice of each job runs at once.
    const jobs = Array.from({ length: 20 }, () => takeTurns(spin(12, 1)));
    last = performance.now();
    let immediate = setImmediate(serve);
    expect(await Promise.all(jobs)).toHaveLength(20);
    clearImmediate(immediate);
    calmest = Math.min(calmest, longest);
  }
  // A slice for each would take 20 times 5 ms per turn of the event loop.
  expect(calmest).toBeLessThan(80);
});

test("mapInSteps() gives what map() gives", () => {
  const list = Array.from({ length: 3000 }, (_, place) => place);
  const change = (item: number, place: number): string => `${item} at ${place}`;
  expect(finish(mapInSteps(list, change))).toEqual(list.map(change));
  const steps = mapInSteps(list, change);
  let count = 0;
  while (steps.next().done !== true) count++;
  expect(count).toBe(5);
});
