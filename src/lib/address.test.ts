import { expect, test } from "vitest";
import { isLoopback } from "./address.ts";

test.each([
  ["localhost", true],
  ["127.0.0.1", true],
  ["127.8.8.8", true],
  ["::1", true],
  ["[::1]", true],
  ["0.0.0.0", false],
  ["127.evil.example", false],
  ["127.0.0.1.evil.example", false],
  ["128.0.0.1", false],
  ["", false],
])("isLoopback(%j) is %s", (host, expected) => {
  expect(isLoopback(host)).toBe(expected);
});
