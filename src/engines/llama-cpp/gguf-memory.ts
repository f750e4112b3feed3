// The memory that a GGUF model takes, planned from the metadata of its file before anything is
// loaded: an allocation that fails later is a sentence without a remedy, or the end of the process.

import { ConfigurationError } from "../../core/index.ts";
import type { GgufMetadata } from "../../tokenizers/gguf-metadata.ts";

/** Tokens of a batch, whose rows of logits are allocated at once. */
const batchTokens = 512;

export type MemoryRequest = {
  readonly path: string;
  /** Size of the file: its weights are mapped into memory. */
  readonly fileBytes: number;
  readonly metadata: GgufMetadata;
  /** Largest number of sequences that the run can use. */
  readonly sequences: number;
  /** `null`: what the model was trained with, at most 8,192. */
  readonly contextTokens: number | null;
  /** Memory that this process may still take. */
  readonly freeBytes: number;
};

export type MemoryPlan = {
  /** Number of sequences that fit. */
  readonly sequences: number;
  /** A sentence for people if fewer fit than were requested, else `null`. */
  readonly notice: string | null;
};

/**
 * Plans for a computation in the memory of this machine. Throws a `ConfigurationError` if not even
 * one sequence fits. A file that does not say the shape of its cache is not planned for.
 */
export function planMemory(request: MemoryRequest): MemoryPlan {
  const { path, fileBytes, metadata, sequences, freeBytes } = request;
  const shape = shapeOf(metadata);
  if (shape === null) return { sequences, notice: null };
  const context = request.contextTokens ?? Math.min(8192, shape.trainedTokens);
  const rows = Math.min(batchTokens, context * sequences) * shape.vocabularySize * 4;
  const left = freeBytes - fileBytes - rows;
  const fitting = Math.floor(left / (context * shape.bytesPerToken));
  const needs =
    `its weights take ${megabytes(fileBytes)}, rows of logits ${megabytes(rows)}, and each sequence of ` +
    `${context} tokens ${megabytes(context * shape.bytesPerToken)}; ${megabytes(Math.max(0, freeBytes))} are free`;
  if (fitting < 1) {
    const most = Math.floor(left / shape.bytesPerToken);
    const remedy = most >= 512 ? `pass --max-context-tokens ${most} or less, or use a smaller file` : "use a smaller file, or free memory"; // prettier-ignore
    throw new ConfigurationError(`Cannot open "${path}": it does not fit into memory: ${needs}; ${remedy}.`);
  }
  if (fitting >= sequences) return { sequences, notice: null };
  return {
    sequences: fitting,
    notice: `Note: ${fitting} of ${sequences} sequences fit into memory (${needs}): further episodes wait for one; lower --max-context-tokens for more.`,
  };
}

type Shape = { readonly vocabularySize: number; readonly trainedTokens: number; readonly bytesPerToken: number };

/** `null` if the file leaves it open, or only a part of the cache grows with the context. */
function shapeOf(metadata: GgufMetadata): Shape | null {
  const name = metadata.get("general.architecture");
  if (typeof name !== "string") return null;
  const value = (key: string): unknown => metadata.get(`${name}.${key}`);
  const number = (key: string): number | null => {
    const found = value(key);
    return typeof found === "number" && found > 0 ? found : null;
  };
  const [layers, heads, width] = [number("block_count"), number("attention.head_count"), number("embedding_length")];
  const trainedTokens = number("context_length");
  const tokens = metadata.get("tokenizer.ggml.tokens");
  if (layers === null || heads === null || width === null || trainedTokens === null || !Array.isArray(tokens)) {
    return null;
  }
  // Sliding windows, states of recurrent layers and compressed keys take less than is computed here.
  if (["attention.sliding_window", "ssm.state_size", "attention.kv_lora_rank"].some((key) => value(key) !== undefined))
    return null;
  const keyValueHeads = value("attention.head_count_kv") ?? heads;
  const perLayer = typeof keyValueHeads === "number" ? keyValueHeads * layers : sumOf(keyValueHeads);
  if (perLayer === null) return null;
  const [keys, values] = [number("attention.key_length"), number("attention.value_length")];
  // Keys and values have 16 bits.
  const bytesPerToken = 2 * perLayer * ((keys ?? width / heads) + (values ?? width / heads));
  return { vocabularySize: tokens.length, trainedTokens, bytesPerToken };
}

/** One number for each layer. */
function sumOf(list: unknown): number | null {
  return ArrayBuffer.isView(list) ? Array.from(list as Uint32Array).reduce((sum, one) => sum + one, 0) : null;
}

function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1e6)} MB`;
}
