import { readdirSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "vitest";

import { modelsSuite } from "./models.ts";
import { committedGoldens, repositoryRoot, sharedFolder } from "./shared-folder.ts";

test("our own models render, encode and decode as transformers does, and their prefixes hold", async () => {
  const reports = [];
  const data = join(repositoryRoot(), "models");
  for await (const report of modelsSuite.run(committedGoldens("models"), { data })) reports.push(report);
  const counts = { decode: 120, drift: 100, encode: 252, prefix: 120, render: 84 };
  const ours = Object.entries(counts).flatMap(([kind, passed]) =>
    ["bookshop-1m", "bookshop-nano"].map((name) => {
      return {
        file: `${kind}.${name}.jsonl`,
        passed,
        failed: 0,
        unsupported: 0,
        failures: [],
        unsupportedReason: null,
      };
    }),
  );
  const readable = { file: "encode.readable.jsonl", passed: 60, failed: 0, unsupported: 0, failures: [], unsupportedReason: null }; // prettier-ignore
  const expected = [...ours, readable].toSorted((first, second) => (first.file < second.file ? -1 : 1));
  expect(reports).toEqual(expected);
});

const folder = sharedFolder("models", "goldens");

test.skipIf(folder === null)(
  "every file of the models suite is played or says why not (skipped without ../shared/models/goldens)",
  async () => {
    const reports = [];
    for await (const report of modelsSuite.run(folder ?? "", { data: null })) reports.push(report);
    const files = new Set(reports.map(({ file }) => file));
    expect([...files]).toEqual(readdirSync(folder ?? "").toSorted());
    expect(reports.flatMap(({ failures }) => failures)).toEqual([]);
    for (const { file, unsupported, unsupportedReason } of reports) {
      expect([file, unsupportedReason === null]).toEqual([file, unsupported === 0]);
    }
  },
);
