// Golden suite `models`: tokenizers and chat templates of model families, one file per family and
// question.

import { readdir } from "node:fs/promises";
import { join } from "node:path";

import { GoldenTally, readGoldenFile } from "./golden-file.ts";
import { runRenderGoldens } from "./models-render.ts";
import { runTokenizerGoldens } from "./models-tokenizer.ts";
import type { GoldenFileReport, GoldenSuite } from "./suite.ts";

export const modelsSuite: GoldenSuite = {
  name: "models",
  run: async function* (folder, options) {
    const files = (await readdir(folder)).filter((file) => file.endsWith(".jsonl")).sort();
    for (const file of files) {
      const ofTokenizer = await runTokenizerGoldens(folder, file, options);
      if (ofTokenizer !== null) yield ofTokenizer;
      else yield (await runRenderGoldens(folder, file, options)) ?? (await countUnknown(folder, file));
    }
  },
};

async function countUnknown(folder: string, file: string): Promise<GoldenFileReport> {
  const tally = new GoldenTally(file);
  const records = await readGoldenFile(join(folder, file));
  records.forEach(() => tally.unsupported("no such kind of golden file is known"));
  return tally.report();
}
