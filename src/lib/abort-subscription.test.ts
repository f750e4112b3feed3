import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { subscribeToAbort } from "./abort-subscription.ts";

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
