// A model folder as one GGUF file, for llama.cpp and programs that use it. Weights stay floats of
// 32 bits, so that logprobs agree. llama.cpp has no name for the tokenizer's own way of cutting
// text, so it needs prompts as token ids; the whole tokenizer.json is in the file too, for those who
// read it.

import { writeFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";

import { ConfigurationError } from "../../core/failure.ts";
import { type Checkpoint, readCheckpoint, readModelJson, toTensors } from "./checkpoint.ts";

/**
 * Reads the folder and writes the file. Rejects with a `ConfigurationError` that names the
 * unsuitable file.
 */
export async function exportGguf(folder: string, file: string): Promise<void> {
  const checkpoint = await readCheckpoint(folder);
  const source = join(folder, "tokenizer.json");
  const [tokenizerJson, tokenizerConfig] = await Promise.all([
    readModelJson(source),
    readModelJson(join(folder, "tokenizer_config.json")),
  ]);
  const size = checkpoint.config.vocabularySize;
  const vocabulary = ggufVocabulary({ tokenizerJson, tokenizerConfig }, { size, source });
  await writeFile(file, toGguf(checkpoint, vocabulary, basename(resolve(folder))));
}

function toGguf({ config, weights }: Checkpoint, vocabulary: GgufVocabulary, name: string): Uint8Array {
  const { endTokenId, padTokenId, chatTemplate } = vocabulary;
  const values: Readonly<Record<string, Buffer | null>> = {
    "general.architecture": text("qwen3"),
    "general.name": text(name),
    "general.file_type": integer(0),
    "qwen3.block_count": integer(config.layers),
    "qwen3.context_length": integer(config.contextLength),
    "qwen3.embedding_length": integer(config.hiddenSize),
    "qwen3.feed_forward_length": integer(config.feedForwardSize),
    "qwen3.attention.head_count": integer(config.heads),
    "qwen3.attention.head_count_kv": integer(config.keyValueHeads),
    "qwen3.attention.key_length": integer(config.headSize),
    "qwen3.attention.value_length": integer(config.headSize),
    "qwen3.attention.layer_norm_rms_epsilon": float(config.normEpsilon),
    "qwen3.rope.freq_base": float(config.ropeTheta),
    "tokenizer.ggml.model": text("gpt2"),
    "tokenizer.ggml.pre": text("qwen2"),
    "tokenizer.ggml.tokens": list(8, vocabulary.tokens, bytesOf),
    "tokenizer.ggml.token_type": list(5, vocabulary.kinds, u32),
    "tokenizer.ggml.merges": list(8, vocabulary.merges, bytesOf),
    "tokenizer.ggml.add_bos_token": Buffer.concat([u32(7), Buffer.of(0)]),
    "tokenizer.ggml.eos_token_id": endTokenId === null ? null : integer(endTokenId),
    "tokenizer.ggml.padding_token_id": padTokenId === null ? null : integer(padTokenId),
    "tokenizer.huggingface.json": text(JSON.stringify(vocabulary.tokenizerJson)),
    "tokenizer.chat_template": chatTemplate === null ? null : text(chatTemplate),
  };
  const written = Object.entries(values).flatMap(([key, value]) => (value === null ? [] : [[bytesOf(key), value]]));
  const tensors = [...toTensors(config, weights)];
  let offset = 0;
  const described = tensors.map(([hugging, { shape, values: floats }]) => {
    const start = offset;
    offset = aligned(offset + floats.byteLength);
    // Our shapes are [outputs, inputs], those of the file are reversed. Type 0: floats of 32 bits.
    return [bytesOf(ggufName(hugging)), u32(shape.length), ...shape.toReversed().map(u64), u32(0), u64(start)];
  });
  const parts = [
    Buffer.from("GGUF"),
    u32(3),
    u64(tensors.length),
    u64(written.length),
    ...written,
    ...described,
  ].flat();
  const head = Buffer.concat(parts);
  const file = Buffer.alloc(aligned(head.length) + offset);
  file.set(head);
  let at = aligned(head.length);
  for (const [, { values: floats }] of tensors) {
    file.set(new Uint8Array(floats.buffer, floats.byteOffset, floats.byteLength), at);
    at += aligned(floats.byteLength);
  }
  return file;
}

const partNames: Readonly<Record<string, string>> = {
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
  if (layer !== undefined) return `blk.${layer}.${partNames[part]}.weight`;
  return name === "model.norm.weight" ? "output_norm.weight" : "token_embd.weight";
}

type GgufVocabulary = {
  /** Token strings indexed by id, in the alphabet of byte-level BPE. */
  readonly tokens: readonly string[];
  /**
   * Kinds aligned with `tokens`, in llama.cpp's numbers: 1 an ordinary token, 3 a control token, 4
   * one cut out of text, 5 unused.
   */
  readonly kinds: readonly number[];
  readonly merges: readonly string[];
  /** The file itself, parsed. */
  readonly tokenizerJson: unknown;
  readonly endTokenId: number | null;
  readonly padTokenId: number | null;
  readonly chatTemplate: string | null;
};

type AddedToken = { readonly id: number; readonly content: string; readonly special: boolean };
type TokenizerJson = {
  readonly model?: {
    readonly type?: string;
    readonly vocab?: Readonly<Record<string, number>>;
    readonly merges?: readonly (string | readonly [string, string])[];
  };
  readonly added_tokens?: readonly AddedToken[];
};

/**
 * `size`: rows of the embedding; ids without a token get a name that no text holds. Throws a `ConfigurationError` that names
 * `source` for a tokenizer of another kind.
 */
function ggufVocabulary(
  files: { readonly tokenizerJson: unknown; readonly tokenizerConfig: unknown },
  options: { readonly size: number; readonly source: string },
): GgufVocabulary {
  const { model = {}, added_tokens: added = [] } = (files.tokenizerJson ?? {}) as TokenizerJson;
  const config = (files.tokenizerConfig ?? {}) as Readonly<Record<string, unknown>>;
  const { size, source } = options;
  if (model.type !== "BPE" || model.vocab === undefined || model.merges === undefined) {
    throw new ConfigurationError(
      `Cannot export the tokenizer "${source}": its model is ${JSON.stringify(model.type) ?? "missing"}, expected "BPE".`,
    );
  }
  const tokens = Array.from({ length: size }, (_, id) => `<unused_${id}>`);
  const kinds = Array.from({ length: size }, () => 5);
  const place = (id: number, token: string, kind: number): void => {
    if (id >= size) {
      throw new ConfigurationError(
        `Cannot export the tokenizer "${source}": token ${id} is beyond the ${size} tokens of the model; use the files of one model.`,
      );
    }
    tokens[id] = token;
    kinds[id] = kind;
  };
  for (const [token, id] of Object.entries(model.vocab)) place(id, token, 1);
  for (const { id, content, special } of added) place(id, content, special ? 3 : 4);
  const idOf = (name: string): number | null => {
    const token = config[name];
    const content = typeof token === "object" && token !== null ? (token as { content?: unknown }).content : token;
    const id = typeof content === "string" ? tokens.indexOf(content) : -1;
    return id === -1 ? null : id;
  };
  const template = config["chat_template"];
  return {
    tokens,
    kinds,
    tokenizerJson: files.tokenizerJson,
    merges: model.merges.map((merge) => (typeof merge === "string" ? merge : merge.join(" "))),
    endTokenId: idOf("eos_token"),
    padTokenId: idOf("pad_token"),
    chatTemplate: typeof template === "string" ? template : null,
  };
}

const alignment = 32;

function aligned(offset: number): number {
  return Math.ceil(offset / alignment) * alignment;
}

// Numbers of the format, little-endian; values of its metadata begin with the number of their type.

function u32(value: number): Buffer {
  return Buffer.from(Uint32Array.of(value).buffer);
}

function u64(value: number): Buffer {
  return Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
}

/** A string with its length, as keys are written. */
function bytesOf(value: string): Buffer {
  const encoded = Buffer.from(value);
  return Buffer.concat([u64(encoded.length), encoded]);
}

function integer(value: number): Buffer {
  return Buffer.concat([u32(4), u32(value)]);
}

function float(value: number): Buffer {
  return Buffer.concat([u32(6), Buffer.from(Float32Array.of(value).buffer)]);
}

function text(value: string): Buffer {
  return Buffer.concat([u32(8), bytesOf(value)]);
}

/** `type`: type of the elements, which are written without a type of their own. */
function list<T>(type: number, values: readonly T[], element: (value: T) => Buffer): Buffer {
  return Buffer.concat([u32(9), u32(type), u64(values.length), ...values.map(element)]);
}
