import { expect, test } from "vitest";
import { isFromThisMachine, isLoopback } from "./address.ts";

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

test.each([
  ["localhost:8900", null, true],
  ["localhost", "http://localhost", true],
  ["127.0.0.1:8900", "http://127.0.0.1:8900", true],
  ["LOCALHOST:8900", "http://localhost:8900", true],
  ["[::1]:8900", "http://[::1]:8900", true],
  // A page from another server on this machine.
  ["127.0.0.1:8900", "http://127.0.0.1:3000", false],
  ["localhost:8900", "http://localhost", false],
  ["localhost:8900", "https://localhost", false],
  ["localhost:8900", "http://127.0.0.1:8900", false],
  ["127.0.0.1:8900", "http://127.0.0.2:8900", false],
  ["[::1]:8900", "http://[::1]:8901", false],
  // A page from another machine, a page without an origin, and an invalid origin.
  ["127.0.0.1:8900", "https://example.com", false],
  ["127.0.0.1:8900", "null", false],
  ["127.0.0.1:8900", "", false],
  ["127.0.0.1:8900", "127.0.0.1:8900", false],
  ["127.0.0.1:8900", "file://127.0.0.1:8900", false],
  ["127.0.0.1:8900", "http://127.0.0.1:8900, http://127.0.0.1:3000", false],
  // A foreign host name that resolves to this machine.
  ["evil.example:8900", null, false],
  ["evil.example:8900", "http://evil.example:8900", false],
  ["localhost@evil.example", null, false],
  ["localhost.evil.example", null, false],
  ["", null, false],
  [null, null, false],
])("isFromThisMachine() of host %j and origin %j is %s", (host, origin, expected) => {
  expect(isFromThisMachine({ host, origin })).toBe(expected);
});
