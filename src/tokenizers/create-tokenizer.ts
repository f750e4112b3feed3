// Chooses who tokenizes: our own byte-level BPE where it covers the definition, the library for everything else.

import { ConfigurationError, type Tokenizer } from "../core/index.ts";
import { ByteLevelBpe } from "./byte-level-bpe.ts";
import { readBpe } from "./read-bpe.ts";
import { TimeLimitError } from "../lib/deadline.ts";
import { boundTokenizer, hasUnknownPattern } from "./bounded-tokenizer.ts";
import { NotByteLevelBpe, type PlainObject } from "./tokenizer-json.ts";

export type TokenizerDefinition = {
  /** The parsed tokenizer.json. */
  readonly tokenizerJson: unknown;
  /** The parsed tokenizer_config.json; `null` when there is none. Only the library looks at it. */
  readonly tokenizerConfig: unknown;
};

/**
 * Makes a tokenizer from parsed files. Rejects with a `ConfigurationError` that names `source` (default: the name) when
 * they define none. `timeoutMs` bounds every encoding where the file has regular expressions that are not known; default
 * 10,000.
 */
export async function createTokenizer(
  name: string,
  definition: TokenizerDefinition,
  options: { readonly source?: string; readonly timeoutMs?: number } = {},
): Promise<Tokenizer> {
  const source = options.source ?? name;
  try {
    const tokenizer = await chooseTokenizer(name, definition, source);
    const { normalizer, pre_tokenizer: cut, decoder } = asObject(definition.tokenizerJson, source) as PlainObject;
    if (hasUnknownPattern([decoder])) {
      throw new ConfigurationError(
        `Cannot read tokenizer "${source}": its decoder has a regular expression, which no published one has; give the ` +
          "tokenizer.json that was published with the model.",
      );
    }
    return hasUnknownPattern([normalizer, cut]) ? boundTokenizer(tokenizer, options) : tokenizer;
  } catch (error) {
    const problem =
      error instanceof TimeLimitError ? "its regular expressions take too long on plain text" : "it is nested too deep";
    if (!(error instanceof TimeLimitError || error instanceof RangeError)) throw error;
    throw new ConfigurationError(
      `Cannot read tokenizer "${source}": ${problem}; give the tokenizer.json that was published with the model.`,
      { cause: error },
    );
  }
}

async function chooseTokenizer(name: string, definition: TokenizerDefinition, source: string): Promise<Tokenizer> {
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
