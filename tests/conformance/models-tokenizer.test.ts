import { describe, expect, test } from "vitest";

import { runTokenizerGoldens } from "./models-tokenizer.ts";
import { sharedFolder } from "./shared-folder.ts";

const folder = sharedFolder("models", "goldens");

const files: readonly (readonly [file: string, records: number])[] = [
  ["encode.tiny-chatml.jsonl", 180],
  ["encode.qwen2.5.jsonl", 210],
  ["encode.qwen3.jsonl", 210],
  ["decode.qwen2.5.jsonl", 142],
  ["decode.qwen3.jsonl", 138],
  ["drift.tiny-chatml.jsonl", 36],
  ["drift.qwen2.5.jsonl", 37],
  ["drift.qwen3.jsonl", 35],
];

describe.skipIf(folder === null)("tokenizer goldens (skipped without ../shared/models/goldens)", () => {
  test.each(files)("%s: all %i records agree with Hugging Face tokenizers", async (file, passed) => {
    expect(await runTokenizerGoldens(folder ?? "", file, { data: null })).toEqual({
      file, passed, failed: 0, unsupported: 0, failures: [], unsupportedReason: null,
    }); // prettier-ignore
  });

  test("records of a tokenizer whose file is missing are unsupported, with the reason", async () => {
    const report = await runTokenizerGoldens(folder ?? "", "encode.llama-3.1.jsonl", { data: null });
    expect(report).toMatchObject({
      passed: 0,
      failed: 0,
      unsupportedReason:
        "no llama-3.1/tokenizer.json in the data; it comes under the Llama Community License, so bring your own with --data",
    });
    expect(report?.unsupported).toBeGreaterThan(0);
  });

  test("files of other kinds are left alone", async () => {
    expect(await runTokenizerGoldens(folder ?? "", "render.qwen3.jsonl", { data: null })).toBeNull();
  });
});
