import { describe, expect, it } from "vitest";
import { seedSuite } from "./seed.ts";
import { sharedFolder } from "./shared-folder.ts";

const folder = sharedFolder("seed", "goldens");

describe.skipIf(folder === null)("seed goldens (skipped without ../shared/seed/goldens)", () => {
  it("slime-tau posts, says, counts and masks what the original loop did, record by record", async () => {
    const reports = [];
    for await (const report of seedSuite.run(folder!, { data: null })) reports.push(report);
    expect(reports.flatMap(({ failures }) => failures)).toEqual([]);
    expect(reports.map(({ file, passed, unsupported }) => [file, passed, unsupported])).toEqual([
      ["episodes-qwen2.5-instruct.jsonl", 123, 0],
      ["episodes-qwen3-instruct-2507.jsonl", 123, 0],
      ["episodes-qwen3.jsonl", 30, 0],
    ]);
  });
});
