import { expect, test } from "vitest";
import { benchmarkNames, brief } from "./benches.mjs";

test("every benchmark is started by `verify -- benches`, or has a reason why not", () => {
  expect(Object.keys(brief).toSorted()).toEqual(benchmarkNames().toSorted());
});
