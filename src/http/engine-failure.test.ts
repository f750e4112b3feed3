import { expect, test } from "vitest";
import { parseRetryAfter, serverMessage } from "./engine-failure.ts";

test.each([
  ['{"error":{"message":"a"}}', "a"],
  ['{"error":"a"}', "a"],
  ['{"error":{"message":"a","code":400}}', "a"],
  ['{"error":{"message":"a","code":"too_long"}}', "a (too_long)"],
  ['{"error":{"message":"too_long: a","code":"too_long"}}', "too_long: a"],
  ['{"object":"error","message":"a"}', "a"],
  ['{"detail":"a"}', "a"],
  ['{"detail":[{"msg":"a"}]}', '[{"msg":"a"}]'],
  ['"a"', "a"],
  ['{"what":1}', '{"what":1}'],
  ["plain", "plain"],
  ["", ""],
  ["null", "null"],
])("serverMessage() reads %s", (body, message) => {
  expect(serverMessage(body)).toBe(message);
});

test.each([
  ["2", null, 2000],
  ["0", null, 0],
  ["Wed, 21 Oct 2026 07:28:10 GMT", "Wed, 21 Oct 2026 07:28:00 GMT", 10_000],
  ["Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:10 GMT", 0],
  ["Wed, 21 Oct 2026 07:28:10 GMT", null, null],
  ["soon", null, null],
  ["-3", null, null],
  [null, null, null],
])("parseRetryAfter(%j, %j) is %j", (value, date, wait) => {
  expect(parseRetryAfter(value, date)).toBe(wait);
});
