// The shape of a model: Qwen3 as Hugging Face writes it in config.json, restricted to what the kernels compute. Dense
// layers, tied embeddings, full causal attention; anything else in a config.json is refused by name, never ignored.

import { ConfigurationError } from "../../core/failure.ts";

export type ModelConfig = {
  readonly vocabularySize: number;
  readonly hiddenSize: number;
  readonly layers: number;
  readonly heads: number;
  /** Heads of keys and values, each shared by `heads / keyValueHeads` heads of queries. */
  readonly keyValueHeads: number;
  readonly headSize: number;
  readonly feedForwardSize: number;
  readonly ropeTheta: number;
  readonly normEpsilon: number;
  /** Maximum number of tokens of a sequence, prompt and completion together. */
  readonly contextLength: number;
};

/**
 * A field of config.json: one of our own, the only value that the kernels compute, or a value
 * written for other readers.
 */
type ConfigField = { readonly ours: keyof ModelConfig } | { readonly only: unknown } | { readonly written: unknown };

/** config.json, in the order in which it is written. */
const configFields: Readonly<Record<string, ConfigField>> = {
  architectures: { written: ["Qwen3ForCausalLM"] },
  model_type: { only: "qwen3" },
  vocab_size: { ours: "vocabularySize" },
  hidden_size: { ours: "hiddenSize" },
  num_hidden_layers: { ours: "layers" },
  num_attention_heads: { ours: "heads" },
  num_key_value_heads: { ours: "keyValueHeads" },
  head_dim: { ours: "headSize" },
  intermediate_size: { ours: "feedForwardSize" },
  hidden_act: { only: "silu" },
  max_position_embeddings: { ours: "contextLength" },
  rope_theta: { ours: "ropeTheta" },
  rope_scaling: { only: null },
  rms_norm_eps: { ours: "normEpsilon" },
  attention_bias: { only: false },
  attention_dropout: { written: 0 },
  use_sliding_window: { only: false },
  tie_word_embeddings: { written: true },
};

/** Throws a `ConfigurationError` that names `source` and the field. */
export function readModelConfig(json: unknown, source: string): ModelConfig {
  const fields = { ...(json as Record<string, unknown> | null) };
  const refuse = (problem: string): ConfigurationError =>
    new ConfigurationError(
      `Cannot read model "${source}": ${problem}; the embedded engine runs dense Qwen3 models with tied embeddings.`,
    );
  if (fields["tie_word_embeddings"] !== true) throw refuse("tie_word_embeddings is not true");
  if (fields["rope_theta"] === undefined) {
    // transformers 5 writes `rope_parameters` instead of `rope_theta` and `rope_scaling`.
    const { rope_theta: theta, rope_type: kind = "default" } = {
      ...(fields["rope_parameters"] as object | undefined),
    } as Readonly<Record<string, unknown>>;
    if (kind !== "default") throw refuse(`rope_parameters.rope_type is ${JSON.stringify(kind)}, expected "default"`);
    fields["rope_theta"] = theta;
  }
  const config: Partial<Record<keyof ModelConfig, number>> = {};
  for (const [name, field] of Object.entries(configFields)) {
    const value = fields[name];
    const found = JSON.stringify(value) ?? "missing";
    if ("only" in field && (value ?? field.only) !== field.only) {
      throw refuse(`${name} is ${found}, expected ${JSON.stringify(field.only)}`);
    }
    if (!("ours" in field)) continue;
    if (!(typeof value === "number" && value > 0)) throw refuse(`${name} is ${found}, a positive number expected`);
    config[field.ours] = value;
  }
  const problem = shapeProblem(config as ModelConfig);
  if (problem !== null) throw refuse(problem);
  return config as ModelConfig;
}

/**
 * Reason why the kernels cannot compute this shape; `null` if they can. They take vectors of 4
 * floats and panels of 8.
 */
export function shapeProblem(config: ModelConfig): string | null {
  for (const [name, value] of Object.entries(config)) {
    const isWhole = name === "ropeTheta" || name === "normEpsilon" || Number.isInteger(value);
    if (!(value > 0 && isWhole)) return `${name} is ${value}, expected a positive integer`;
    const most = largest[name];
    if (most !== undefined && value > most) return `${name} is ${value}, expected at most ${most}`;
  }
  const multiples = { vocabularySize: 8, hiddenSize: 8, feedForwardSize: 8, headSize: 16 } as const;
  for (const [name, factor] of Object.entries(multiples)) {
    const value = config[name as keyof typeof multiples];
    if (value % factor !== 0) return `${name} is ${value}, expected a multiple of ${factor}`;
  }
  if (config.heads % config.keyValueHeads !== 0) {
    return `${config.heads} heads cannot share ${config.keyValueHeads} heads of keys and values evenly`;
  }
  const { hiddenSize, headSize, heads, keyValueHeads, feedForwardSize, layers, vocabularySize, contextLength } = config;
  const width = 2 * headSize * (heads + keyValueHeads) + 3 * feedForwardSize;
  if (hiddenSize * (vocabularySize + layers * width) > maxFloats || contextLength * headSize > maxFloats) {
    return `it describes more than ${maxFloats} numbers`;
  }
  return null;
}

/**
 * Limits checked before any array of such a length is made. Models that run on a CPU are far below.
 */
const largest: Readonly<Record<string, number>> = { layers: 1024, vocabularySize: 2 ** 20 };
/** Number of floats that fit in the 4 GiB of WebAssembly's memory. */
const maxFloats = 2 ** 30;

/** The config.json that Hugging Face, SGLang and others read. */
export function toHuggingFaceConfig(
  config: ModelConfig,
  endTokenId: number | null = null,
): Readonly<Record<string, unknown>> {
  const written = Object.entries(configFields).map(([name, field]): [string, unknown] => [
    name,
    "ours" in field ? config[field.ours] : "only" in field ? field.only : field.written,
  ]);
  return Object.fromEntries<unknown>([...written, ["eos_token_id", endTokenId], ["torch_dtype", "float32"]]);
}

export type ModelShape = Omit<ModelConfig, "vocabularySize">;

const shared = { headSize: 32, ropeTheta: 1_000_000, normEpsilon: 1e-6, contextLength: 2048 } as const;

export const modelShapes = {
  /** About 1 million parameters with a vocabulary of 2,048. */
  small: { ...shared, hiddenSize: 128, layers: 4, heads: 4, keyValueHeads: 2, feedForwardSize: 384 },
  /** About 0.4 million with a vocabulary of 1,024: for tests, and for a first look. */
  nano: { ...shared, hiddenSize: 96, layers: 3, heads: 3, keyValueHeads: 1, feedForwardSize: 256 },
} as const satisfies Readonly<Record<string, ModelShape>>;
