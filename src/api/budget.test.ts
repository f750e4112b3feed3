import { expect, test } from "vitest";
import { ratesOf } from "./budget.ts";

test("a worker has its part of the requests a minute, as many as there are now; one process has them all", () => {
  expect(ratesOf({ modelRequestsPerMinute: null }, { share: { workers: 2 } })).toEqual({});
  expect(ratesOf({ modelRequestsPerMinute: 90 }, {})).toEqual({ requestsPerMinute: 90 });
  const share = { workers: 1 };
  const { requestsPerMinute } = ratesOf({ modelRequestsPerMinute: 90 }, { share });
  const current = (): unknown => (typeof requestsPerMinute === "function" ? requestsPerMinute() : null);
  expect(current()).toBe(90);
  share.workers = 3;
  expect(current()).toBe(30);
});
