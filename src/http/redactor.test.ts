import { expect, test } from "vitest";
import { createRedactor } from "./redactor.ts";

test("createRedactor() replaces every secret, the longest first, and leaves other text alone", () => {
  const redact = createRedactor(["abc", "abcdef", null, ""]);
  expect(redact("key abcdef, key abc, key ab")).toBe("key ***, key ***, key ab");
  expect(createRedactor([null, ""])("nothing to hide")).toBe("nothing to hide");
});
