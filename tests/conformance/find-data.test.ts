import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach, expect, test } from "vitest";

import { ConfigurationError } from "../../src/core/index.ts";
import { findData } from "./find-data.ts";

let base = "";
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "find-data-"));
  mkdirSync(join(base, "goldens"));
});
afterEach(() => rmSync(base, { recursive: true }));

// A kind of data that is in no shared folder, so that the outcome is the same with and without one.
const find = (data: string | null) =>
  findData("chess", { data, goldens: join(base, "goldens"), mustContain: ["openings"] });

test("findData() takes the named folder, or the folder of the kind in it, and never looks elsewhere", () => {
  mkdirSync(join(base, "openings"));
  mkdirSync(join(base, "named", "chess", "openings"), { recursive: true });
  mkdirSync(join(base, "empty"));
  expect(find(join(base, "named", "chess"))).toBe(join(base, "named", "chess"));
  expect(find(join(base, "named"))).toBe(join(base, "named", "chess"));
  expect(() => find(join(base, "empty"))).toThrow(ConfigurationError);
});

test.each(["goldens", "goldens/chess", ".", "chess"])(
  "findData() finds data that lies beside the goldens in %j",
  (place) => {
    mkdirSync(join(base, place, "openings"), { recursive: true });
    expect(find(null)).toBe(join(base, place));
  },
);

test("findData() lists the places it looked at when none fits", () => {
  expect(() => find(null)).toThrow(`"${join(base, "goldens", "chess")}"`);
  expect(() => find(null)).toThrow("name it with --data <folder>");
});
