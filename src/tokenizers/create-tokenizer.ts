// Chooses who tokenizes: our own byte-level BPE where it covers the definition, the library for everything else.

import { ConfigurationError, type Tokenizer } from "../core/index.ts";
import { ByteLevelBpe } from "./byte-level-bpe.ts";
import { readBpe } from "./read-bpe.ts";
import { NotByteLevelBpe } from "./tokenizer-json.ts";

export type TokenizerDefinition = {
  /** The parsed tokenizer.json. */
  readonly tokenizerJson: unknown;
  /** The parsed tokenizer_config.json; `null` when there is none. Only the library looks at it. */
  readonly tokenizerConfig: unknown;
};

/**
 * Makes a tokenizer from parsed files. Rejects with a `ConfigurationError` that names `source` (default: the name) when
 * they define none.
 */
export async function createTokenizer(
  name: string,
  definition: TokenizerDefinition,
  options: { readonly source?: string } = {},
): Promise<Tokenizer> {
  const source = options.source ?? name;
  try {
    return new ByteLevelBpe(name, readBpe(definition.tokenizerJson, source));
  } catch (error) {
    if (!(error instanceof NotByteLevelBpe)) throw error;
    // Loaded when needed: most models never need it.
    const { createLibraryTokenizer } = await import("./library-tokenizer.ts");
    const tokenizerJson = asObject(definition.tokenizerJson, source);
    const tokenizerConfig = asObject(definition.tokenizerConfig ?? {}, source);
    return createLibraryTokenizer(name, { tokenizerJson, tokenizerConfig }, { source, because: error.message });
  }
}

function asObject(value: unknown, source: string): object {
  if (typeof value === "object" && value !== null) return value;
  throw new ConfigurationError(`Cannot read tokenizer "${source}": its tokenizer_config.json is no object.`);
}
