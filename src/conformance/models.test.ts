import { readdirSync } from "node:fs";

import { expect, test } from "vitest";

import { modelsSuite } from "./models.ts";
import { sharedFolder } from "./shared-folder.ts";

const folder = sharedFolder("models", "goldens");

test.skipIf(folder === null)(
  "every file of the models suite is played or says why not (skipped without ../shared)",
  async () => {
    const reports = [];
    for await (const report of modelsSuite.run(folder ?? "", { data: null })) reports.push(report);
    const files = new Set(reports.map(({ file }) => file.replace(" (its own template)", "")));
    expect([...files]).toEqual(readdirSync(folder ?? "").toSorted());
    expect(reports.flatMap(({ failures }) => failures)).toEqual([]);
    for (const { file, unsupported, unsupportedReason } of reports) {
      expect([file, unsupportedReason === null]).toEqual([file, unsupported === 0]);
    }
  },
);
