// A model folder as one GGUF file, for llama.cpp and what is built on it. Weights stay floats of 32 bits, so that logprobs
// agree; the tokenizer's own way of cutting text has no name in llama.cpp, so prompts are best given as token ids.

import { readFile, writeFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";

import { ConfigurationError } from "../../core/failure.ts";
import { type Checkpoint, readCheckpoint, toTensors, type Tensor } from "./checkpoint.ts";

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

type GgufVocabulary = {
  /** By id, in the alphabet of byte-level BPE. */
  readonly tokens: readonly string[];
  /** Aligned with `tokens`; llama.cpp's numbers: 1 an ordinary token, 3 a control token, 4 one cut out of text, 5 none. */
  readonly kinds: readonly number[];
  readonly merges: readonly string[];
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
      `Cannot export the tokenizer "${source}": its model is ${JSON.stringify(model.type) ?? "missing"}, "BPE" expected.`,
    );
  }
  const tokens = Array.from({ length: size }, (_, id) => `<unused_${id}>`);
  const kinds = Array.from({ length: size }, () => 5);
  const place = (id: number, token: string, kind: number): void => {
    if (id >= size) {
      throw new ConfigurationError(
        `Cannot export the tokenizer "${source}": token ${id} is beyond the ${size} of the model; give the files of one model.`,
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
    merges: model.merges.map((merge) => (typeof merge === "string" ? merge : merge.join(" "))),
    endTokenId: idOf("eos_token"),
    padTokenId: idOf("pad_token"),
    chatTemplate: typeof template === "string" ? template : null,
  };
}

type GgufValue =
  | { readonly type: "integer"; readonly value: number }
  | { readonly type: "float"; readonly value: number }
  | { readonly type: "flag"; readonly value: boolean }
  | { readonly type: "text"; readonly value: string }
  | { readonly type: "texts"; readonly values: readonly string[] }
  | { readonly type: "integers"; readonly values: readonly number[] };

const typeCodes = { integer: 4, signedInteger: 5, float: 6, flag: 7, text: 8, list: 9 } as const;
const alignment = 32;

/** Tensors in the order given; their shapes are ours ([outputs, inputs]), the file's run the other way round. */
function ggufBytes(values: ReadonlyMap<string, GgufValue>, tensors: ReadonlyMap<string, Tensor>): Uint8Array {
  const writer = new ByteWriter();
  writer.bytes(new TextEncoder().encode("GGUF"));
  writer.integer(3);
  writer.long(tensors.size);
  writer.long(values.size);
  for (const [name, value] of values) {
    writer.text(name);
    writeValue(writer, value);
  }
  let offset = 0;
  for (const [name, tensor] of tensors) {
    writer.text(name);
    writer.integer(tensor.shape.length);
    for (const length of tensor.shape.toReversed()) writer.long(length);
    writer.integer(0);
    writer.long(offset);
    offset = aligned(offset + tensor.values.byteLength);
  }
  writer.align(alignment);
  for (const { values: floats } of tensors.values()) {
    writer.bytes(new Uint8Array(floats.buffer, floats.byteOffset, floats.byteLength));
    writer.align(alignment);
  }
  return writer.finish();
}

function writeValue(writer: ByteWriter, value: GgufValue): void {
  switch (value.type) {
    case "integer":
      writer.integer(typeCodes.integer);
      writer.integer(value.value);
      break;
    case "float":
      writer.integer(typeCodes.float);
      writer.float(value.value);
      break;
    case "flag":
      writer.integer(typeCodes.flag);
      writer.bytes(Uint8Array.of(value.value ? 1 : 0));
      break;
    case "text":
      writer.integer(typeCodes.text);
      writer.text(value.value);
      break;
    case "texts":
      writer.list(typeCodes.text, value.values.length);
      for (const text of value.values) writer.text(text);
      break;
    case "integers":
      writer.list(typeCodes.signedInteger, value.values.length);
      for (const number of value.values) writer.integer(number);
      break;
    default:
      value satisfies never;
  }
}

function aligned(offset: number): number {
  return Math.ceil(offset / alignment) * alignment;
}

/** Little-endian, growing. */
class ByteWriter {
  readonly #parts: Uint8Array[] = [];
  #length = 0;

  bytes(part: Uint8Array): void {
    this.#parts.push(part);
    this.#length += part.byteLength;
  }

  integer(value: number): void {
    this.bytes(new Uint8Array(Uint32Array.of(value).buffer));
  }

  long(value: number): void {
    this.bytes(new Uint8Array(BigUint64Array.of(BigInt(value)).buffer));
  }

  float(value: number): void {
    this.bytes(new Uint8Array(Float32Array.of(value).buffer));
  }

  text(value: string): void {
    const encoded = new TextEncoder().encode(value);
    this.long(encoded.byteLength);
    this.bytes(encoded);
  }

  list(type: number, length: number): void {
    this.integer(typeCodes.list);
    this.integer(type);
    this.long(length);
  }

  align(to: number): void {
    this.bytes(new Uint8Array((to - (this.#length % to)) % to));
  }

  finish(): Uint8Array {
    const all = new Uint8Array(this.#length);
    let at = 0;
    for (const part of this.#parts) {
      all.set(part, at);
      at += part.byteLength;
    }
    return all;
  }
}
