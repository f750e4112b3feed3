// Golden suite `models`: tokenizers and chat templates of model families, one file a family and question.

import { readdir } from "node:fs/promises";
import { join } from "node:path";

import { GoldenTally, readGoldenFile } from "./golden-file.ts";
import { runRenderGoldens } from "./models-render.ts";
import { runTemplateGoldens } from "./models-template.ts";
import { runTokenizerGoldens } from "./models-tokenizer.ts";
import type { GoldenFileReport, GoldenSuite, GoldenSuiteOptions } from "./suite.ts";

export const modelsSuite: GoldenSuite = {
  name: "models",
  run: async function* (folder, options) {
    const files = (await readdir(folder)).filter((file) => file.endsWith(".jsonl")).sort();
    for (const file of files) {
      const ofTokenizer = await runTokenizerGoldens(folder, file, options);
      if (ofTokenizer !== null) yield ofTokenizer;
      else yield* await runTemplateFile(folder, file, options);
    }
  },
};

/** Native renderers where there is one, and the fallback always. */
async function runTemplateFile(
  folder: string,
  file: string,
  options: GoldenSuiteOptions,
): Promise<readonly GoldenFileReport[]> {
  const native = await runRenderGoldens(folder, file);
  const template = await runTemplateGoldens(folder, file, options);
  if (native === null || template === null) return [await countUnknown(folder, file)];
  return native.passed + native.failed > 0 ? [native, template] : [template];
}

async function countUnknown(folder: string, file: string): Promise<GoldenFileReport> {
  const tally = new GoldenTally(file);
  const records = await readGoldenFile(join(folder, file));
  records.forEach(() => tally.unsupported("no such kind of golden file is known"));
  return tally.report();
}
