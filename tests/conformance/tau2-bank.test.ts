import { describe, expect, test } from "vitest";

import { committedGoldens, sharedFolder } from "./shared-folder.ts";
import type { GoldenFileReport } from "./suite.ts";
import { tau2BenchSuite } from "./tau2-bench.ts";

const data = sharedFolder("tau2-bench");

/** Records of each file; a file that shrinks unnoticed would prove nothing. */
const counts: Readonly<Record<string, number>> = {
  "bank-calls.jsonl": 28,
  "bank-policies.jsonl": 102,
  "bank-searches.jsonl": 400,
};

describe.skipIf(data === null)("the bank of τ²-bench (skipped without ../shared/tau2-bench)", async () => {
  const reports = new Map<string, GoldenFileReport>();
  if (data !== null) {
    for await (const report of tau2BenchSuite.run(committedGoldens("tau2-bench"), { data })) {
      reports.set(report.file, report);
    }
  }

  test.each(Object.entries(counts))("%s agrees with the reference on %i records", (file, count) => {
    expect(reports.get(file)).toMatchObject({ passed: count, failed: 0, failures: [] });
  });
});
