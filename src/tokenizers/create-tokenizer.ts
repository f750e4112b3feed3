// Chooses a tokenizer: byte-level BPE if the definition needs no more than that, else the one for
// every other kind. Kinds that are not proven against Hugging Face tokenizers are refused by name:
// wrong ids would train a model silently. A file with unknown regular expressions gets a time
// limit: JavaScript's engine backtracks, `(a+)+b` takes for ever on some text, and no analysis of
// patterns is both simple and sound.

import {
  AttributedError,
  ConfigurationError,
  type LiteralEncoding,
  type TextRange,
  type Tokenizer,
} from "../core/index.ts";
import { TimeLimitError, runBounded, withinTime } from "../lib/deadline.ts";
import type { Steps } from "../lib/steps.ts";
import { ByteLevelBpe } from "./byte-level-bpe.ts";
import { chatSplitPattern } from "./chat-split-pattern.ts";
import { readBpe, NotByteLevelBpe } from "./read-bpe.ts";
import { type PlainObject, UnsupportedPart } from "./tokenizer-json.ts";

export type TokenizerDefinition = {
  /** The parsed tokenizer.json. */
  readonly tokenizerJson: unknown;
  /**
   * The parsed tokenizer_config.json; `null` if there is none. Ids and texts follow from
   * tokenizer.json, so it is not read here.
   */
  readonly tokenizerConfig: unknown;
};

/** A tokenizer.json with a part that is not proven to give the ids and texts of Hugging Face tokenizers. */
export class UnsupportedTokenizerError extends ConfigurationError {
  /** Field of tokenizer.json: "model", "normalizer", "pre_tokenizer", "decoder" or "added_tokens". */
  readonly part: string;

  constructor(source: string, unsupported: UnsupportedPart) {
    super(
      `Cannot use tokenizer "${source}": its ${unsupported.part} has ${unsupported.message}, which is not proven to give the ids ` +
        "of Hugging Face tokenizers; use a model whose tokenizer has another one. FEATURES.md lists the kinds that are " +
        "supported.",
      { cause: unsupported },
    );
    this.name = "UnsupportedTokenizerError";
    this.part = unsupported.part;
  }
}

/**
 * Makes a tokenizer from parsed files. Rejects with an {@link UnsupportedTokenizerError} for a kind
 * that is not proven, and with another `ConfigurationError` that names `source` (default: the name)
 * for a file that is broken. `timeoutMs` bounds every encoding if the file has unknown regular
 * expressions; default 10,000.
 */
export async function createTokenizer(
  name: string,
  definition: TokenizerDefinition,
  options: { readonly source?: string; readonly timeoutMs?: number } = {},
): Promise<Tokenizer> {
  const source = options.source ?? name;
  try {
    const tokenizer = await chooseTokenizer(name, definition, source);
    const { normalizer, pre_tokenizer: cut, decoder } = definition.tokenizerJson as PlainObject;
    if (hasUnknownPattern([decoder])) {
      throw new ConfigurationError(
        `Cannot read tokenizer "${source}": its decoder has a regular expression, unlike any published one; use the ` +
          "tokenizer.json published with the model.",
      );
    }
    return hasUnknownPattern([normalizer, cut]) ? boundTokenizer(tokenizer, options) : tokenizer;
  } catch (error) {
    const problem =
      error instanceof TimeLimitError
        ? "its regular expressions take too long on plain text"
        : "it is nested too deeply";
    if (!(error instanceof TimeLimitError || error instanceof RangeError)) throw error;
    throw new ConfigurationError(
      `Cannot read tokenizer "${source}": ${problem}; use the tokenizer.json published with the model.`,
      { cause: error },
    );
  }
}

async function chooseTokenizer(name: string, definition: TokenizerDefinition, source: string): Promise<Tokenizer> {
  try {
    return new ByteLevelBpe(name, readBpe(definition.tokenizerJson, source));
  } catch (error) {
    if (!(error instanceof NotByteLevelBpe)) throw error;
    // Loaded on demand: most models never need it.
    const { readTextTokenizer } = await import("./text-tokenizer.ts");
    try {
      return readTextTokenizer(name, definition.tokenizerJson, source);
    } catch (unsupported) {
      throw unsupported instanceof UnsupportedPart ? new UnsupportedTokenizerError(source, unsupported) : unsupported;
    }
  }
}

/**
 * Patterns of GPT-2, Qwen, Llama 3, gpt-4o, DeepSeek, T5 and the models that this package trains.
 */
const published: ReadonlySet<string> = new Set([
  String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`,
  String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
  String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
  String.raw`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
  String.raw`\p{N}{1,3}`,
  "[一-龥\u3040-ゟ゠-ヿ]+",
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
  " {2,}",
  chatSplitPattern,
]);

/**
 * True if parts of a tokenizer.json have unknown patterns. Throws a `RangeError` for parts that are
 * nested too deep.
 */
function hasUnknownPattern(parts: readonly unknown[]): boolean {
  return parts.some((part) => patternsIn(part).some((pattern) => !published.has(pattern)));
}

function patternsIn(value: unknown): readonly string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]: [string, unknown]) =>
    key === "Regex" && typeof inner === "string" ? [inner] : patternsIn(inner),
  );
}

/**
 * Time limit for one text, and for all trials on loading. A prompt of 128,000 tokens takes half a
 * second.
 */
const maxTimeMs = 10_000;

/**
 * The tokenizer with a time limit. Throws a {@link TimeLimitError} if it does not finish the trials
 * on loading.
 */
function boundTokenizer(tokenizer: Tokenizer, { timeoutMs = maxTimeMs } = {}): Tokenizer {
  runBounded(() => {
    for (const character of "aA1 \n!é日_<")
      for (const end of ["", "\0", "b"]) tokenizer.encode(character.repeat(400) + end);
  }, timeoutMs);
  const { name, vocabularySize } = tokenizer;
  const tooSlow = (length: number): AttributedError =>
    new AttributedError({
      boundary: "renderer",
      code: "tokenizer-too-slow",
      message:
        `Cannot encode or decode with tokenizer "${name}": its regular expressions take more than ` +
        `${timeoutMs / 1000} seconds for a length of ${length}; use the tokenizer.json published with the model.`,
      retryable: false,
      cause: null,
    });
  const within = <T>(length: number, work: () => T): T => {
    try {
      return runBounded(work, timeoutMs);
    } catch (error) {
      throw error instanceof TimeLimitError ? tooSlow(length) : error;
    }
  };
  const encodeInSteps = tokenizer.encodeInSteps?.bind(tokenizer);
  return {
    name,
    vocabularySize,
    encode: (text) => within(text.length, () => tokenizer.encode(text)),
    encodeLiteral: (text, literal) => within(text.length, () => tokenizer.encodeLiteral(text, literal)),
    ...(encodeInSteps !== undefined && {
      *encodeInSteps(text: string, literal: readonly TextRange[]): Steps<LiteralEncoding> {
        try {
          return yield* withinTime(encodeInSteps.call(tokenizer, text, literal), timeoutMs);
        } catch (error) {
          throw error instanceof TimeLimitError ? tooSlow(text.length) : error;
        }
      },
    }),
    decode: (ids, options) => within(ids.length, () => tokenizer.decode(ids, options)),
    tokenId: (text) => tokenizer.tokenId(text),
    isSpecial: (id) => tokenizer.isSpecial(id),
    startDecoding: () => tokenizer.startDecoding(),
  };
}
