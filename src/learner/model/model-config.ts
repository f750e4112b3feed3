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
  /** Most tokens of a sequence, prompt and completion together. */
  readonly contextLength: number;
};

/** Throws a `ConfigurationError` that names `source` and the field. */
export function readModelConfig(json: unknown, source: string): ModelConfig {
  const fields = (typeof json === "object" && json !== null ? json : {}) as Readonly<Record<string, unknown>>;
  const refuse = (problem: string): ConfigurationError =>
    new ConfigurationError(
      `Cannot read model "${source}": ${problem}; the embedded engine runs dense Qwen3 models with tied embeddings.`,
    );
  for (const [name, expected] of Object.entries(fixedFields)) {
    const value = fields[name];
    if (value !== undefined && value !== null && value !== expected) {
      throw refuse(`${name} is ${JSON.stringify(value)}, ${JSON.stringify(expected)} expected`);
    }
  }
  if (fields["tie_word_embeddings"] !== true) throw refuse("tie_word_embeddings is not true");
  const number = (name: string): number => {
    const value = fields[name];
    if (typeof value === "number" && value > 0) return value;
    throw refuse(`${name} is ${JSON.stringify(value) ?? "missing"}, a positive number expected`);
  };
  const config = {
    vocabularySize: number("vocab_size"),
    hiddenSize: number("hidden_size"),
    layers: number("num_hidden_layers"),
    heads: number("num_attention_heads"),
    keyValueHeads: number("num_key_value_heads"),
    headSize: number("head_dim"),
    feedForwardSize: number("intermediate_size"),
    ropeTheta:
      fields["rope_theta"] === undefined ? ropeThetaOf(fields["rope_parameters"], refuse) : number("rope_theta"),
    normEpsilon: number("rms_norm_eps"),
    contextLength: number("max_position_embeddings"),
  };
  const problem = shapeProblem(config);
  if (problem !== null) throw refuse(problem);
  return config;
}

/** transformers 5 writes `rope_parameters` where `rope_theta` and `rope_scaling` stood. */
function ropeThetaOf(parameters: unknown, refuse: (problem: string) => ConfigurationError): number {
  const { rope_theta: theta, rope_type: kind = "default" } = (parameters ?? {}) as Readonly<Record<string, unknown>>;
  if (kind !== "default") throw refuse(`rope_parameters.rope_type is ${JSON.stringify(kind)}, "default" expected`);
  if (typeof theta === "number" && theta > 0) return theta;
  throw refuse(`rope_theta is ${JSON.stringify(theta) ?? "missing"}, a positive number expected`);
}

/** What a config.json may say of these, if it says anything. */
const fixedFields: Readonly<Record<string, unknown>> = {
  model_type: "qwen3",
  hidden_act: "silu",
  attention_bias: false,
  rope_scaling: null,
  use_sliding_window: false,
};

/** Why the kernels cannot compute this shape; `null` when they can. They take vectors of 4 floats and panels of 8. */
export function shapeProblem(config: ModelConfig): string | null {
  for (const [name, value] of Object.entries(config)) {
    const isWhole = name === "ropeTheta" || name === "normEpsilon" || Number.isInteger(value);
    if (!(value > 0 && isWhole)) return `${name} is ${value}, a positive integer expected`;
    const most = largest[name];
    if (most !== undefined && value > most) return `${name} is ${value}, at most ${most} expected`;
  }
  const multiples = { vocabularySize: 8, hiddenSize: 8, feedForwardSize: 8, headSize: 16 } as const;
  for (const [name, factor] of Object.entries(multiples)) {
    const value = config[name as keyof typeof multiples];
    if (value % factor !== 0) return `${name} is ${value}, a multiple of ${factor} expected`;
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

/** Checked before anything is as long as one of these. Models that run on a CPU are far below. */
const largest: Readonly<Record<string, number>> = { layers: 1024, vocabularySize: 2 ** 20 };
/** What the 4 GiB of WebAssembly's memory hold. */
const maxFloats = 2 ** 30;

/** The config.json that Hugging Face, SGLang and others read. */
export function toHuggingFaceConfig(
  config: ModelConfig,
  endTokenId: number | null = null,
): Readonly<Record<string, unknown>> {
  return {
    architectures: ["Qwen3ForCausalLM"],
    model_type: "qwen3",
    vocab_size: config.vocabularySize,
    hidden_size: config.hiddenSize,
    num_hidden_layers: config.layers,
    num_attention_heads: config.heads,
    num_key_value_heads: config.keyValueHeads,
    head_dim: config.headSize,
    intermediate_size: config.feedForwardSize,
    hidden_act: "silu",
    max_position_embeddings: config.contextLength,
    rope_theta: config.ropeTheta,
    rope_scaling: null,
    rms_norm_eps: config.normEpsilon,
    attention_bias: false,
    attention_dropout: 0,
    use_sliding_window: false,
    tie_word_embeddings: true,
    eos_token_id: endTokenId,
    torch_dtype: "float32",
  };
}

export type ModelShape = Omit<ModelConfig, "vocabularySize">;

const shared = { headSize: 32, ropeTheta: 1_000_000, normEpsilon: 1e-6, contextLength: 2048 } as const;

export const modelShapes = {
  /** About 1 million parameters with a vocabulary of 2,048. */
  small: { ...shared, hiddenSize: 128, layers: 4, heads: 4, keyValueHeads: 2, feedForwardSize: 384 },
  /** About 0.4 million with a vocabulary of 1,024: for tests, and for a first look. */
  nano: { ...shared, hiddenSize: 96, layers: 3, heads: 3, keyValueHeads: 1, feedForwardSize: 256 },
} as const satisfies Readonly<Record<string, ModelShape>>;
