// The folder of a finished model: Hugging Face's files, the training log, and the card that says where it comes from.

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Tokenizer } from "../../core/index.ts";
import { type Checkpoint, type ModelConfig, writeCheckpoint } from "../model/index.ts";
import type { ChatTokenizerFiles } from "../../tokenizers/index.ts";
import { cardOf } from "./card.ts";
import type { Recipe } from "./recipe.ts";
import { logAsCsv, type LogRow } from "./training-log.ts";

/** Everything but log and card. Weights are rounded to BF16. */
export async function writeModelFolder(
  folder: string,
  checkpoint: Checkpoint,
  vocabulary: { readonly files: ChatTokenizerFiles; readonly tokenizer: Tokenizer },
): Promise<void> {
  const { files, tokenizer } = vocabulary;
  const idOf = (token: string): number => {
    const id = tokenizer.tokenId(token);
    if (id === null) throw new Error(`Cannot write the model: its tokenizer has no "${token}".`);
    return id;
  };
  const [endTokenId, padTokenId] = [idOf("<|im_end|>"), idOf("<|endoftext|>")];
  await mkdir(folder, { recursive: true });
  await writeCheckpoint(folder, checkpoint, { endTokenId, dtype: "BF16" });
  const generation = { do_sample: true, temperature: 1, top_k: 0, top_p: 1 };
  await Promise.all([
    writeJson("tokenizer.json", files.tokenizerJson),
    writeJson("tokenizer_config.json", files.tokenizerConfig),
    writeJson("generation_config.json", { eos_token_id: endTokenId, pad_token_id: padTokenId, ...generation }),
  ]);

  async function writeJson(name: string, value: unknown): Promise<void> {
    await writeFile(join(folder, name), `${JSON.stringify(value, null, 1)}\n`);
  }
}

export async function writeReport(
  folder: string,
  run: { readonly recipe: Recipe; readonly config: ModelConfig; readonly rows: readonly LogRow[] },
): Promise<void> {
  await writeFile(join(folder, "training-log.csv"), logAsCsv(run.rows));
  await writeFile(join(folder, "README.md"), cardOf(run));
}
