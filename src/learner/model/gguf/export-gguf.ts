// A model folder as one GGUF file, for llama.cpp and what is built on it. Weights stay floats of 32 bits, so that logprobs
// agree; the tokenizer's own way of cutting text has no name in llama.cpp, so prompts are best given as token ids.

import { readFile, writeFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";

import { ConfigurationError } from "../../../core/failure.ts";
import { type Checkpoint, readCheckpoint, toTensors } from "../checkpoint.ts";
import type { Tensor } from "../safetensors.ts";
import { ggufBytes, type GgufValue } from "./gguf-bytes.ts";
import { type GgufVocabulary, ggufVocabulary } from "./gguf-vocabulary.ts";

/** Reads the folder and writes the file. Rejects with a `ConfigurationError` that names the file that does not fit. */
export async function exportGguf(folder: string, file: string): Promise<void> {
  const checkpoint = await readCheckpoint(folder);
  const source = join(folder, "tokenizer.json");
  const [tokenizerJson, tokenizerConfig] = await Promise.all([
    readJson(source),
    readJson(join(folder, "tokenizer_config.json")),
  ]);
  const size = checkpoint.config.vocabularySize;
  const vocabulary = ggufVocabulary({ tokenizerJson, tokenizerConfig }, { size, source });
  await writeFile(file, toGguf(checkpoint, vocabulary, basename(resolve(folder))));
}

export function toGguf({ config, weights }: Checkpoint, vocabulary: GgufVocabulary, name: string): Uint8Array {
  const integer = (value: number): GgufValue => ({ type: "integer", value });
  const float = (value: number): GgufValue => ({ type: "float", value });
  const text = (value: string): GgufValue => ({ type: "text", value });
  const { endTokenId, padTokenId, chatTemplate } = vocabulary;
  const values = new Map<string, GgufValue>([
    ["general.architecture", text("qwen3")],
    ["general.name", text(name)],
    ["general.file_type", integer(0)],
    ["qwen3.block_count", integer(config.layers)],
    ["qwen3.context_length", integer(config.contextLength)],
    ["qwen3.embedding_length", integer(config.hiddenSize)],
    ["qwen3.feed_forward_length", integer(config.feedForwardSize)],
    ["qwen3.attention.head_count", integer(config.heads)],
    ["qwen3.attention.head_count_kv", integer(config.keyValueHeads)],
    ["qwen3.attention.key_length", integer(config.headSize)],
    ["qwen3.attention.value_length", integer(config.headSize)],
    ["qwen3.attention.layer_norm_rms_epsilon", float(config.normEpsilon)],
    ["qwen3.rope.freq_base", float(config.ropeTheta)],
    ["tokenizer.ggml.model", text("gpt2")],
    ["tokenizer.ggml.pre", text("qwen2")],
    ["tokenizer.ggml.tokens", { type: "texts", values: vocabulary.tokens }],
    ["tokenizer.ggml.token_type", { type: "integers", values: vocabulary.kinds }],
    ["tokenizer.ggml.merges", { type: "texts", values: vocabulary.merges }],
    ["tokenizer.ggml.add_bos_token", { type: "flag", value: false }],
  ]);
  if (endTokenId !== null) values.set("tokenizer.ggml.eos_token_id", integer(endTokenId));
  if (padTokenId !== null) values.set("tokenizer.ggml.padding_token_id", integer(padTokenId));
  if (chatTemplate !== null) values.set("tokenizer.chat_template", text(chatTemplate));
  const tensors = new Map<string, Tensor>();
  for (const [hugging, tensor] of toTensors(config, weights)) tensors.set(ggufName(hugging), tensor);
  return ggufBytes(values, tensors);
}

const parts: Readonly<Record<string, string>> = {
  input_layernorm: "attn_norm",
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.q_norm": "attn_q_norm",
  "self_attn.k_norm": "attn_k_norm",
  "self_attn.o_proj": "attn_output",
  post_attention_layernorm: "ffn_norm",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  "mlp.down_proj": "ffn_down",
};

function ggufName(name: string): string {
  const [, layer, part = ""] = /^model\.layers\.(\d+)\.(.+)\.weight$/.exec(name) ?? [];
  if (layer !== undefined) return `blk.${layer}.${parts[part]}.weight`;
  return name === "model.norm.weight" ? "output_norm.weight" : "token_embd.weight";
}

async function readJson(path: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(path, "utf8"));
  } catch (cause) {
    throw new ConfigurationError(`Cannot read "${path}": ${(cause as Error).message}; name a whole model folder.`, {
      cause,
    });
  }
}
