import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";

import { sharedFolder } from "./shared-folder.ts";
import type { GoldenFileReport } from "./suite.ts";
import { tauBenchSuite } from "./tau-bench.ts";

const folder = sharedFolder("tau-bench", "goldens");

/** Records per file; a file that shrinks unnoticed would prove nothing. */
const counts: Readonly<Record<string, number>> = {
  "airline/episodes.jsonl": 180,
  "airline/gpt-4o-airline.jsonl": 100,
  "airline/matrix.jsonl": 2777,
  "airline/sequences.jsonl": 620,
  "airline/tasks.jsonl": 50,
  "calculate.jsonl": 1132,
  "python-values.jsonl": 1179,
  "retail/episodes.jsonl": 180,
  "retail/matrix.jsonl": 2371,
  "retail/sequences.jsonl": 620,
  "retail/tasks.jsonl": 635,
  "user-flows.json": 12,
};

async function reportsOf(goldens: string, data: string | null): Promise<Map<string, GoldenFileReport>> {
  const reports = new Map<string, GoldenFileReport>();
  for await (const report of tauBenchSuite.run(goldens, { data })) reports.set(report.file, report);
  return reports;
}

describe.skipIf(folder === null)("τ-bench goldens (skipped without ../shared/tau-bench/goldens)", async () => {
  const reports = folder === null ? new Map<string, GoldenFileReport>() : await reportsOf(folder, null);
  const copies: string[] = [];
  afterAll(() => Promise.all(copies.map((copy) => rm(copy, { recursive: true }))));

  test.each(Object.entries(counts))("%s agrees with the reference on all %i records", (file, count) => {
    expect(reports.get(file)).toEqual({
      file, passed: count, failed: 0, unsupported: 0, failures: [], unsupportedReason: null,
    }); // prettier-ignore
  });

  test("no record of any file fails", () => {
    expect([...reports.values()].flatMap((report) => report.failures)).toEqual([]);
  });

  test("a copy elsewhere is played with the tables that --data names, and a wrong answer in it fails", async () => {
    const copy = await mkdtemp(join(tmpdir(), "tau-goldens-"));
    copies.push(copy);
    await cp(join(folder!, "retail", "episodes.jsonl"), join(copy, "retail", "some-episodes.jsonl"), {
      recursive: true,
    });
    const wrong = { at: "x", name: "think", arguments: '{"thought": 1}', obs: "something", tags: [] };
    await writeFile(join(copy, "retail", "wrong.jsonl"), `${JSON.stringify(wrong)}\n`);
    await writeFile(join(copy, "odd.jsonl"), '{"never": "seen"}\n');
    const copied = await reportsOf(copy, join(folder!, ".."));
    expect(copied.get("retail/some-episodes.jsonl")).toMatchObject({ passed: 180, failed: 0 });
    expect(copied.get("retail/wrong.jsonl")).toMatchObject({ passed: 0, failed: 1 });
    expect(copied.get("odd.jsonl")).toMatchObject({ unsupported: 1, unsupportedReason: "records of an unknown kind" });
  });
});
