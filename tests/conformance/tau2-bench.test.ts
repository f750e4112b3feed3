import { describe, expect, test } from "vitest";

import { sharedFolder } from "./shared-folder.ts";
import type { GoldenFileReport } from "./suite.ts";
import { tau2BenchSuite } from "./tau2-bench.ts";

const folder = sharedFolder("tau2-bench", "goldens");

/** Records that pass in each file; a file that shrinks unnoticed would prove nothing. */
const counts: Readonly<Record<string, number>> = {
  "action-strings.jsonl": 109,
  "calculate.jsonl": 500,
  "evaluate.jsonl": 402,
  "gold-airline.jsonl": 50,
  "gold-banking_knowledge.jsonl": 97,
  "gold-mock.jsonl": 10,
  "gold-retail.jsonl": 114,
  "gold-telecom-full.jsonl": 2285,
  "gold-telecom.jsonl": 114,
  "gym.jsonl": 11,
  "hash-text.jsonl": 6,
  "llm-requests.jsonl": 5,
  "merge.jsonl": 10,
  "metrics.jsonl": 56,
  "orchestrator.jsonl": 51,
  "prompts.jsonl": 310,
  "random-airline.jsonl": 30,
  "random-mock.jsonl": 6,
  "random-retail.jsonl": 36,
  "random-telecom.jsonl": 70,
  "result-text.jsonl": 8,
  "telecom-world.jsonl": 184,
  "trial-seeds.jsonl": 7,
};

describe.skipIf(folder === null)("τ²-bench goldens (skipped without ../shared/tau2-bench/goldens)", async () => {
  const reports = new Map<string, GoldenFileReport>();
  if (folder !== null) {
    for await (const report of tau2BenchSuite.run(folder, { data: null })) reports.set(report.file, report);
  }

  test.each(Object.entries(counts))("%s agrees with the reference on %i records", (file, count) => {
    expect(reports.get(file)).toMatchObject({ passed: count, failed: 0 });
  });

  test("no record of any file fails", () => {
    expect([...reports.values()].flatMap((report) => report.failures)).toEqual([]);
  });

  test("only results of Python types that no tool has are not played", () => {
    const reasons = new Map([...reports].map(([file, report]) => [file, report.unsupportedReason]));
    expect(reasons.get("result-text.jsonl")).toBe("results of Python types that no tool has");
    expect([...reasons.values()].filter((reason) => reason !== null)).toHaveLength(1);
  });
});
