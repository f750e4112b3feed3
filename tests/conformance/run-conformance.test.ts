import { tmpdir } from "node:os";

import { expect, test } from "vitest";

import { ConfigurationError } from "../../src/core/index.ts";
import { runConformance } from "./run-conformance.ts";
import type { GoldenFileReport, GoldenSuite } from "./suite.ts";

const folder = tmpdir();

const clean: GoldenFileReport = {
  file: "clean.jsonl",
  passed: 3,
  failed: 0,
  unsupported: 0,
  failures: [],
  unsupportedReason: null,
};

function suiteOf(...reports: readonly GoldenFileReport[]): GoldenSuite {
  return {
    name: "sums",
    async *run() {
      yield* reports;
    },
  };
}

async function run(suite: GoldenSuite, ...parameters: string[]) {
  const lines: string[] = [];
  const errors: string[] = [];
  const code = await runConformance(parameters, {
    suiteNames: ["sums"],
    loadSuite: async (name) => (name === "sums" ? suite : null),
    print: (line) => lines.push(line),
    printError: (line) => errors.push(line),
  });
  return { code, text: lines.join("\n"), lastLine: lines.at(-1)?.trim(), errors };
}

test("runConformance() ends with the counts and code 0 when every record passed", async () => {
  const { code, text, lastLine } = await run(suiteOf(clean, { ...clean, file: "other.jsonl" }), "sums", folder);
  expect(code).toBe(0);
  expect(text).toContain("other.jsonl: 3 passed");
  expect(lastLine).toBe("6 passed, 0 failed");
});

test("runConformance() shows the first ten failures with their differences, ends with the counts and code 1", async () => {
  const failures = Array.from({ length: 10 }, (_, index) => ({ id: `case ${index}`, difference: "wanted 1\nfound 2" }));
  const broken: GoldenFileReport = { ...clean, file: "broken.jsonl", failed: 12, failures };
  const { code, text, lastLine } = await run(suiteOf(broken, { ...broken, file: "later.jsonl" }), "sums", folder);
  expect(code).toBe(1);
  expect(text).toContain("The first 10 of 24 failures:");
  expect(text).toContain("broken.jsonl › case 9\n    wanted 1\n    found 2");
  expect(text).not.toContain("later.jsonl › case 0");
  expect(lastLine).toBe("6 passed, 24 failed");
});

test("runConformance() counts what is not supported yet as failed, unless that is allowed", async () => {
  const missing = { ...clean, file: "airline.jsonl", unsupported: 5, unsupportedReason: "airline is not built yet" };
  const strict = await run(suiteOf(missing), "sums", folder);
  expect(strict.code).toBe(1);
  expect(strict.text).toContain("airline.jsonl: 3 passed, 5 not supported yet (airline is not built yet)");
  expect(strict.lastLine).toBe("3 passed, 5 failed");
  const lenient = await run(suiteOf(missing), "sums", folder, "--allow-unsupported");
  expect(lenient.code).toBe(0);
  expect(lenient.text).toContain("5 not supported yet (allowed)");
  expect(lenient.lastLine).toBe("3 passed, 0 failed");
});

test.each([
  [[], "a suite and a folder wanted"],
  [["sums"], "a suite and a folder wanted"],
  [["products", folder], 'there is no suite "products"; suites are sums.'],
  [["sums", "no/such/folder"], '"no/such/folder" is not a folder'],
  [["sums", folder, "--data", "nowhere"], '"nowhere" is not a folder'],
  [["sums", folder, "--loud"], "Unknown option '--loud'"],
])("runConformance(%j) says in one sentence why it played nothing, with code 2", async (parameters, sentence) => {
  const { code, text, errors } = await run(suiteOf(clean), ...parameters);
  expect(code).toBe(2);
  expect(text).toBe("");
  expect(errors).toHaveLength(1);
  expect(errors[0]).toContain(sentence);
});

test("runConformance() refuses a folder without golden files of the suite", async () => {
  const { code, errors } = await run(suiteOf(), "sums", folder);
  expect(code).toBe(2);
  expect(errors[0]).toContain("holds none of its golden files");
});

test("runConformance() reports a suite's own configuration error, and lets other errors through", async () => {
  const failing = (error: Error): GoldenSuite => ({
    name: "sums",
    // oxlint-disable-next-line require-yield -- it fails before its first file
    async *run() {
      throw error;
    },
  });
  const { code, errors } = await run(failing(new ConfigurationError("Cannot find the tables.")), "sums", folder);
  expect(code).toBe(2);
  expect(errors).toEqual(["Cannot find the tables."]);
  await expect(run(failing(new TypeError("a bug")), "sums", folder)).rejects.toThrow("a bug");
});
