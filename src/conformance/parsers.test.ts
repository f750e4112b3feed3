import { describe, expect, test } from "vitest";

import { toolCallParserNames } from "../parsers/index.ts";
import { parsersSuite } from "./parsers.ts";
import { sharedFolder } from "./shared-folder.ts";
import type { GoldenFileReport } from "./suite.ts";

const folder = sharedFolder("parsers");

/** Vectors per file; a file that shrinks unseen would prove nothing. */
const counts: Readonly<Record<string, number>> = { qwen25: 115 };

describe.skipIf(folder === null)("parser vectors (skipped without ../shared)", async () => {
  const reports = new Map<string, GoldenFileReport>();
  if (folder !== null)
    for await (const report of parsersSuite.run(folder, { data: null })) reports.set(report.file, report);

  test.each(Object.entries(counts))("%s agrees with SGLang on all %i vectors", (name, count) => {
    expect(toolCallParserNames).toContain(name);
    expect(reports.get(`${name}.jsonl`)).toEqual({
      file: `${name}.jsonl`, passed: count, failed: 0, unsupported: 0, failures: [], unsupportedReason: null,
    }); // prettier-ignore
  });

  test("no vector of any file fails", () => {
    expect([...reports.values()].flatMap((report) => report.failures)).toEqual([]);
  });
});
