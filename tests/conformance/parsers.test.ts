import { readdirSync } from "node:fs";

import { describe, expect, test } from "vitest";

import { parsersSuite } from "./parsers.ts";
import { committedGoldens, sharedFolder } from "./shared-folder.ts";
import type { GoldenFileReport } from "./suite.ts";

const folder = sharedFolder("parsers-0.5.23");

/** Vectors per file; a file that shrinks unnoticed would prove nothing. */
const counts: Readonly<Record<string, number>> = {
  deepseekv3: 101,
  deepseekv31: 103,
  deepseekv32: 114,
  deepseekv4: 115,
  gigachat3: 114,
  glm45: 112,
  glm47: 114,
  "gpt-oss": 102,
  hermes: 115,
  interns1: 112,
  kimi_k2: 103,
  lfm2: 114,
  llama3: 116,
  mimo: 114,
  "minimax-m2": 113,
  "minimax-m3": 112,
  mistral: 107,
  pythonic: 102,
  qwen25: 115,
  qwen3_coder: 112,
  reasoning: 472,
  step3: 115,
  trinity: 116,
};

/**
 * Parsers whose vectors are recorded only in the set of every clone, with the server's version in
 * each.
 */
const recorded = [
  "apertus2509",
  "beam",
  "cohere_command4",
  "deepseekv41",
  "dots",
  "gemma4",
  "gigachat35",
  "hunyuan",
  "inkling",
  "iquest_q1",
  "k2_horizon",
  "kimi_k3",
  "ling3",
  "minicpm5",
  "muse",
  "poolside_v1",
  "spark25",
];

describe("the parser vectors of every clone", () => {
  const files = [...Object.keys(counts), ...recorded].map((name) => `${name}.jsonl`);

  test("there is a file for each parser that SGLang has a detector for", () => {
    expect(readdirSync(committedGoldens("parsers")).toSorted()).toEqual(files.toSorted());
  });

  test("each parser agrees with SGLang on 20 of them", async () => {
    for await (const report of parsersSuite.run(committedGoldens("parsers"), { data: null })) {
      const { file } = report;
      // Vectors of the reasoning parsers: gpt-oss answers 10 texts, and the others 10 texts each.
      const passed = file === "reasoning.jsonl" ? 390 : 20;
      expect(report).toEqual({ file, passed, failed: 0, unsupported: 0, failures: [], unsupportedReason: null });
    }
  });
});

describe.skipIf(folder === null)("parser vectors (skipped without ../shared/parsers-0.5.23)", async () => {
  const reports = new Map<string, GoldenFileReport>();
  if (folder !== null)
    for await (const report of parsersSuite.run(folder, { data: null })) reports.set(report.file, report);

  test.each(Object.entries(counts))("%s agrees with SGLang on all %i vectors", (name, count) => {
    expect(reports.get(`${name}.jsonl`)).toEqual({
      file: `${name}.jsonl`, passed: count, failed: 0, unsupported: 0, failures: [], unsupportedReason: null,
    }); // prettier-ignore
  });

  test("every file of vectors is counted here", () => {
    expect([...reports.keys()].toSorted()).toEqual(
      Object.keys(counts)
        .map((name) => `${name}.jsonl`)
        .toSorted(),
    );
  });
});
