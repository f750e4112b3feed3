// The tokenizers that the properties of renderers are checked with: readable ids always, real ones
// if they are available.

import { sharedFolder } from "../../tests/conformance/shared-folder.ts";
import type { Tokenizer } from "../core/index.ts";
import { createReadableTokenizer, loadTokenizer } from "../tokenizers/index.ts";

export async function testTokenizers(): Promise<readonly Tokenizer[]> {
  const folders = ["tiny-chatml", "qwen2.5-instruct", "qwen3"].map((name) => sharedFolder("models", name));
  const loaded = folders.flatMap((folder) => (folder === null ? [] : [loadTokenizer(folder)]));
  return [createReadableTokenizer(), ...(await Promise.all(loaded))];
}
