// A GGUF file as a model folder: its metadata hold the tokenizer, the special tokens and the chat
// template of the model. The tokenizer is restated as the tokenizer.json that the model was
// published with, so that the same code encodes; what the file does not say (normalizer, pattern)
// follows from the name of its pre-tokenizer, and unknown names are refused, because wrong ids
// would train a model silently.

import { basename } from "node:path";

import { ConfigurationError } from "../core/index.ts";
import { createTokenizer } from "./create-tokenizer.ts";
import { type GgufMetadata, readGgufMetadata } from "./gguf-metadata.ts";
import type { ModelFolder } from "./model-folder.ts";

/** Reads the file; rejects with a `ConfigurationError` that names what is missing or unknown. */
export async function loadGgufModel(path: string): Promise<ModelFolder> {
  const values = new TypedValues(path, await readGgufMetadata(path));
  const tokens = values.strings("tokenizer.ggml.tokens");
  const name = basename(path);
  const tokenizerJson = tokenizerJsonOf(tokens, values);
  const tokenizer = await createTokenizer(name, { tokenizerJson, tokenizerConfig: null }, { source: path });
  const namedTemplates = readTemplates(values);
  return {
    name,
    tokenizer,
    vocabularySize: tokens.length,
    chatTemplate: namedTemplates.get("tool_use") ?? namedTemplates.get("default") ?? null,
    namedTemplates: namedTemplates.size > 1 ? namedTemplates : new Map(),
    specialTokens: readSpecialTokens(tokens, values),
    tokenizerConfig: null,
    config: null,
  };
}

/** Kinds of tokens, as llama.cpp numbers them; 1 is an ordinary token and 6 a byte. */
const kinds = { unknown: 2, control: 3, userDefined: 4, unused: 5 } as const;

type PreTokenizer = {
  /** Patterns that cut text one after the other. */
  readonly patterns: readonly string[];
  readonly isNfc?: boolean;
  /** True if a piece that is a token as a whole is not merged. */
  readonly ignoresMerges?: boolean;
};

const contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const rest = String.raw` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const upper = String.raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`;
const lower = String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}]`;
const before = String.raw`[^\r\n\p{L}\p{N}]?`;
const slashed = String.raw` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`;

const llama3: PreTokenizer = {
  patterns: [String.raw`${contractions}|${before}\p{L}+|\p{N}{1,3}|${rest}`],
  ignoresMerges: true,
};

/** Pre-tokenizers by `tokenizer.ggml.pre`, as the models they are named after publish them. */
const preTokenizers: ReadonlyMap<string, PreTokenizer> = new Map([
  ["gpt-2", { patterns: [String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`] }],
  ["qwen2", { patterns: [String.raw`${contractions}|${before}\p{L}+|\p{N}|${rest}`], isNfc: true }],
  [
    "qwen35",
    {
      patterns: [
        String.raw`${contractions}|${before}[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
      ],
      isNfc: true,
    },
  ],
  ["llama-bpe", llama3],
  ["llama3", llama3],
  ["llama-v3", llama3],
  ["tekken", { patterns: [`${before}${upper}*${lower}+|${before}${upper}+${lower}*|\\p{N}|${slashed}`], ignoresMerges: true }], // prettier-ignore
  [
    "gpt-4o",
    {
      patterns: [
        `${before}${upper}*${lower}+${contractions}?|${before}${upper}+${lower}*${contractions}?|\\p{N}{1,3}|${slashed}`,
      ],
    },
  ],
  [
    "deepseek-v3",
    {
      patterns: [
        String.raw`\p{N}{1,3}`,
        "[一-龥\u3040-ゟ゠-ヿ]+",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
      ],
    },
  ],
]);

function tokenizerJsonOf(tokens: readonly string[], values: TypedValues): unknown {
  // The format has a key for the whole tokenizer.json; few files have it, ours among them.
  const whole = values.optionalString("tokenizer.huggingface.json");
  if (whole !== null) return values.json("tokenizer.huggingface.json", whole);
  const model = values.string("tokenizer.ggml.model");
  if (model === "gpt2") return byteLevel(tokens, values);
  if (model === "llama") return sentencePiece(tokens, values);
  throw values.unknown("tokenizer.ggml.model", model, ["gpt2", "llama"]);
}

/** Byte-level BPE, whose merges are in the file. */
function byteLevel(tokens: readonly string[], values: TypedValues): object {
  const pre = values.string("tokenizer.ggml.pre");
  const kind = preTokenizers.get(pre);
  if (kind === undefined) throw values.unknown("tokenizer.ggml.pre", pre, [...preTokenizers.keys()]);
  const level = { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false };
  const splits = kind.patterns.map((Regex) => ({
    type: "Split",
    pattern: { Regex },
    behavior: "Isolated",
    invert: false,
  }));
  return {
    ...vocabularyOf(tokens, values),
    normalizer: kind.isNfc === true ? { type: "NFC" } : null,
    pre_tokenizer: { type: "Sequence", pretokenizers: [...splits, level] },
    decoder: level,
    model: {
      type: "BPE",
      vocab: ordinaryTokens(tokens, values),
      merges: values.strings("tokenizer.ggml.merges"),
      ignore_merges: kind.ignoresMerges === true,
    },
  };
}

/** SentencePiece's BPE, which merges the pair whose result has the highest score. */
function sentencePiece(tokens: readonly string[], values: TypedValues): object {
  const vocab = ordinaryTokens(tokens, values, true);
  const space = "\u2581";
  const hasPrefix = values.flag("tokenizer.ggml.add_space_prefix") ?? true;
  const unknown = values.tokenAt("tokenizer.ggml.unknown_token_id", tokens);
  return {
    ...vocabularyOf(tokens, values),
    normalizer: {
      type: "Sequence",
      normalizers: [
        ...(hasPrefix ? [{ type: "Prepend", prepend: space }] : []),
        { type: "Replace", pattern: { String: " " }, content: space },
      ],
    },
    pre_tokenizer: null,
    decoder: {
      type: "Sequence",
      decoders: [
        { type: "Replace", pattern: { String: space }, content: " " },
        { type: "ByteFallback" },
        { type: "Fuse" },
        ...(hasPrefix ? [{ type: "Strip", content: " ", start: 1, stop: 0 }] : []),
      ],
    },
    model: {
      type: "BPE",
      vocab,
      merges: mergesByScore(vocab, values.numbers("tokenizer.ggml.scores", tokens.length)),
      unk_token: unknown,
      fuse_unk: true,
      byte_fallback: true,
    },
  };
}

/** Longest token for which every pair of parts is tried; longer ones are lines of spaces and rules. */
const longestMerge = 256;

/** Pairs of tokens that are a token together: the highest score first, ties by the ids of the parts. */
function mergesByScore(
  vocab: Readonly<Record<string, number>>,
  scores: ArrayLike<number>,
): readonly (readonly [string, string])[] {
  const found: { readonly pair: readonly [string, string]; readonly rank: readonly [number, number, number] }[] = [];
  for (const [token, id] of Object.entries(vocab)) {
    if (token.length > longestMerge) continue;
    for (let at = 1; at < token.length; at++) {
      const [left, right] = [token.slice(0, at), token.slice(at)];
      const [leftId, rightId] = [vocab[left], vocab[right]];
      if (leftId === undefined || rightId === undefined) continue;
      found.push({ pair: [left, right], rank: [scores[id]!, leftId, rightId] });
    }
  }
  found.sort((a, b) => b.rank[0] - a.rank[0] || a.rank[1] - b.rank[1] || a.rank[2] - b.rank[2]);
  return found.map(({ pair }) => pair);
}

/** Tokens that are cut out of text before any other step. */
function vocabularyOf(tokens: readonly string[], values: TypedValues): object {
  const types = values.numbers("tokenizer.ggml.token_type", tokens.length);
  const added = tokens.flatMap((content, id) => {
    const type = types[id];
    const isSpecial = type === kinds.control || type === kinds.unknown;
    if (!isSpecial && type !== kinds.userDefined) return [];
    const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false };
    return [{ id, content, ...flags, special: isSpecial }];
  });
  return { version: "1.0", truncation: null, padding: null, post_processor: null, added_tokens: added };
}

/**
 * Ids by tokens: all but unused ones and, if `hasAdded` is false, those added tokens that follow
 * the others, which get the next ids without being listed.
 */
function ordinaryTokens(
  tokens: readonly string[],
  values: TypedValues,
  hasAdded = false,
): Readonly<Record<string, number>> {
  const types = values.numbers("tokenizer.ggml.token_type", tokens.length);
  const isUsed = (id: number): boolean => types[id] !== kinds.unused;
  const isAdded = (id: number): boolean =>
    types[id] === kinds.control || types[id] === kinds.unknown || types[id] === kinds.userDefined;
  const used = [...tokens.keys()].filter(isUsed);
  const firstAdded = hasAdded ? used.length : used.findLastIndex((id) => !isAdded(id)) + 1;
  const isContiguous = used.every((id, index) => id === index);
  // Without a prototype, so that a token such as "__proto__" is a key like any other.
  const vocab = Object.create(null) as Record<string, number>;
  for (const id of isContiguous ? used.slice(0, firstAdded) : used) {
    const token = tokens[id]!;
    if (token in vocab) {
      throw values.error(`its tokens ${vocab[token]} and ${id} are both ${JSON.stringify(token.slice(0, 60))}`);
    }
    vocab[token] = id;
  }
  return vocab;
}

/** Templates by name; the one without a name is "default". */
function readTemplates(values: TypedValues): Map<string, string> {
  const prefix = "tokenizer.chat_template";
  const templates = new Map<string, string>();
  const main = values.optionalString(prefix);
  if (main !== null) templates.set("default", main);
  for (const key of values.keys()) {
    if (key.startsWith(`${prefix}.`)) templates.set(key.slice(prefix.length + 1), values.string(key));
  }
  return templates;
}

/** The key of a token's id by its name in chat templates. */
const specialKeys = {
  bos_token: "bos_token_id",
  eos_token: "eos_token_id",
  unk_token: "unknown_token_id",
  pad_token: "padding_token_id",
} as const;

function readSpecialTokens(tokens: readonly string[], values: TypedValues): ReadonlyMap<string, string> {
  const special = new Map<string, string>();
  for (const [name, key] of Object.entries(specialKeys)) {
    const token = values.tokenAt(`tokenizer.ggml.${key}`, tokens);
    if (token !== null) special.set(name, token);
  }
  return special;
}

/** The metadata of one file, read with errors that name the file and the key. */
class TypedValues {
  readonly #path: string;
  readonly #values: GgufMetadata;

  constructor(path: string, values: GgufMetadata) {
    this.#path = path;
    this.#values = values;
  }

  keys(): Iterable<string> {
    return this.#values.keys();
  }

  error(problem: string): ConfigurationError {
    return new ConfigurationError(
      `Cannot use the tokenizer of "${this.#path}": ${problem}; name the folder of the model's tokenizer.json with --model.`,
    );
  }

  unknown(key: string, value: string, known: readonly string[]): ConfigurationError {
    return this.error(`${key} is ${JSON.stringify(value.slice(0, 60))}, known are ${known.join(", ")}`);
  }

  #wrong(key: string, expected: string): ConfigurationError {
    const value = this.#values.get(key);
    const state = value === undefined ? "missing" : typeof value === "object" ? "a list" : `a ${typeof value}`;
    return this.error(`${key} is ${state}, ${expected} expected`);
  }

  string(key: string): string {
    const value = this.optionalString(key);
    if (value === null) throw this.#wrong(key, "text");
    return value;
  }

  optionalString(key: string): string | null {
    const value = this.#values.get(key) ?? null;
    if (value === null || typeof value === "string") return value;
    throw this.#wrong(key, "text");
  }

  json(key: string, text: string): unknown {
    try {
      return JSON.parse(text);
    } catch {
      throw this.error(`${key} is not JSON`);
    }
  }

  flag(key: string): boolean | null {
    const value = this.#values.get(key) ?? null;
    if (value === null || typeof value === "boolean") return value;
    throw this.#wrong(key, "true or false");
  }

  strings(key: string): readonly string[] {
    const value = this.#values.get(key);
    if (Array.isArray(value) && value.length > 0 && typeof value[0] === "string") return value as readonly string[];
    throw this.#wrong(key, "a list of texts");
  }

  numbers(key: string, length: number): ArrayLike<number> {
    const value = this.#values.get(key);
    if (!ArrayBuffer.isView(value)) throw this.#wrong(key, "a list of numbers");
    if (value.length === length) return value;
    throw this.error(`${key} has ${value.length} elements, one for each of ${length} tokens expected`);
  }

  /** The token that a key names by its id; `null` if the key is missing. */
  tokenAt(key: string, tokens: readonly string[]): string | null {
    const id = this.#values.get(key) ?? null;
    if (id === null) return null;
    const token = typeof id === "number" ? tokens[id] : undefined;
    if (token === undefined)
      throw this.error(`${key} is ${String(id).slice(0, 40)}, an id below ${tokens.length} expected`);
    return token;
  }
}
