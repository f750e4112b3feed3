// The tokenizers that the properties of renderers are checked with: readable ids always, real ones where they are at hand.

import type { Tokenizer } from "../core/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";

export async function testTokenizers(): Promise<readonly Tokenizer[]> {
  return [createReadableTokenizer()];
}
