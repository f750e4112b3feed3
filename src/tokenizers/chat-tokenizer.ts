// Trains the tokenizer of a small chat model that calls tools, and writes it as Hugging Face files.
// Byte-level BPE, so it encodes any text; but the way text is cut decides what a small model can
// copy. Ids, names and amounts must be the same tokens at any place, so digits go in pairs, and
// capitalised words and the marker of an id ("#W") never include the space or the quote before
// them. Text that is never copied may be long: the skeleton of JSON.

import { bundledChatTemplate } from "../renderers/bundled-template.ts";
import { byteCharacters } from "./byte-table.ts";
import { chatSplitPattern } from "./chat-split-pattern.ts";
import { splitText, translatePattern } from "./split-pattern.ts";

/** Tokens that are cut out of text before any other step, in the order of their ids. */
export const chatTokens = [
  { text: "<|endoftext|>", isSpecial: true },
  { text: "<|im_start|>", isSpecial: true },
  { text: "<|im_end|>", isSpecial: true },
  { text: "<tool_call>", isSpecial: false },
  { text: "</tool_call>", isSpecial: false },
  { text: "<tool_response>", isSpecial: false },
  { text: "</tool_response>", isSpecial: false },
  { text: "<think>", isSpecial: false },
  { text: "</think>", isSpecial: false },
] as const;

export type ChatTokenizerFiles = {
  /** Content of tokenizer.json. */
  readonly tokenizerJson: Readonly<Record<string, unknown>>;
  /** Content of tokenizer_config.json. */
  readonly tokenizerConfig: Readonly<Record<string, unknown>>;
};

export type TrainChatTokenizerOptions = {
  /** Most tokens, including the 256 bytes and {@link chatTokens}. */
  readonly vocabularySize: number;
  /** Minimum number of occurrences of a merge. Default 2. */
  readonly minFrequency?: number;
  /** Longest sequence that tokenizer_config.json states. Default 2,048. */
  readonly contextLength?: number;
};

/** Trains on rendered conversations. The same texts, in any order, give the same files. */
export function trainChatTokenizer(texts: Iterable<string>, options: TrainChatTokenizerOptions): ChatTokenizerFiles {
  const { vocabularySize, minFrequency = 2, contextLength = 2048 } = options;
  const maxTokens = vocabularySize - chatTokens.length;
  const { tokens, merges } = trainMerges(countPieces(texts), { maxTokens, minFrequency });
  const names = tokens.map((bytes) => Array.from(bytes, (byte) => byteCharacters[byte]!).join(""));
  const addedTokens = chatTokens.map(({ text, isSpecial }, index) => ({
    id: tokens.length + index,
    content: text,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: isSpecial,
  }));
  return {
    tokenizerJson: {
      version: "1.0",
      truncation: null,
      padding: null,
      added_tokens: addedTokens,
      normalizer: null,
      pre_tokenizer: {
        type: "Sequence",
        pretokenizers: [
          { type: "Split", pattern: { Regex: chatSplitPattern }, behavior: "Isolated", invert: false },
          { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
        ],
      },
      post_processor: null,
      decoder: { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
      model: {
        type: "BPE",
        dropout: null,
        unk_token: null,
        continuing_subword_prefix: null,
        end_of_word_suffix: null,
        fuse_unk: false,
        byte_fallback: false,
        ignore_merges: false,
        vocab: Object.fromEntries(names.map((name, id) => [name, id])),
        merges: merges.map(([left, right]) => [names[left], names[right]]),
      },
    },
    tokenizerConfig: {
      tokenizer_class: "PreTrainedTokenizerFast",
      bos_token: null,
      eos_token: "<|im_end|>",
      pad_token: "<|endoftext|>",
      unk_token: null,
      add_bos_token: false,
      clean_up_tokenization_spaces: false,
      model_max_length: contextLength,
      added_tokens_decoder: Object.fromEntries(addedTokens.map(({ id, ...token }) => [id, token])),
      chat_template: bundledChatTemplate,
    },
  };
}

function countPieces(texts: Iterable<string>): Map<string, number> {
  const counts = new Map<string, number>();
  const cutOut = new RegExp(chatTokens.map(({ text }) => text.replaceAll("|", "\\|")).join("|"));
  const steps = [{ pattern: translatePattern(chatSplitPattern), keep: "both" }] as const;
  for (const text of texts) {
    for (const part of text.split(cutOut)) {
      splitText(part, steps, (piece) => counts.set(piece, (counts.get(piece) ?? 0) + 1));
    }
  }
  return counts;
}

type TrainedMerges = {
  /** Bytes of each token: the 256 single bytes, then the results of the merges, in order. */
  readonly tokens: readonly Uint8Array[];
  /** Pairs of token ids; the n-th makes token 256 + n. */
  readonly merges: readonly (readonly [left: number, right: number])[];
};

type TrainMergesOptions = {
  /** Most tokens, including the 256 bytes; fewer result if no pair is frequent enough. */
  readonly maxTokens: number;
  /** Minimum number of occurrences of a pair. Default 2. */
  readonly minFrequency?: number;
};

type Piece = { ids: number[]; readonly count: number };

/**
 * Learns merges from pieces of text and how often each occurs. Ties go to the pair with the lower
 * ids, so the same pieces give the same merges in any order.
 */
export function trainMerges(pieceCounts: ReadonlyMap<string, number>, options: TrainMergesOptions): TrainedMerges {
  const { maxTokens, minFrequency = 2 } = options;
  const encoder = new TextEncoder();
  const tokens = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte));
  const merges: [number, number][] = [];
  /** Pairs by both ids, combined into one number. */
  const pairs = new Map<number, Pair>();
  /** Adds the pairs of a piece to the counts, or removes them (`sign` -1). */
  const count = (piece: Piece, sign: 1 | -1): void => {
    for (let index = 0; index + 1 < piece.ids.length; index++) {
      const [left, right] = [piece.ids[index]!, piece.ids[index + 1]!];
      const key = left * 2 ** 24 + right;
      const pair = pairs.get(key) ?? { left, right, count: 0, pieces: new Set() };
      pairs.set(key, pair);
      pair.count += sign * piece.count;
      if (sign === 1) pair.pieces.add(piece);
      else pair.pieces.delete(piece);
    }
  };
  for (const [text, frequency] of pieceCounts) count({ ids: [...encoder.encode(text)], count: frequency }, 1);
  while (tokens.length < maxTokens) {
    let best: Pair | null = null;
    for (const pair of pairs.values()) if (best === null || isBetter(pair, best)) best = pair;
    if (best === null || best.count < minFrequency) break;
    const { left, right, pieces } = best;
    const id = tokens.length;
    tokens.push(Uint8Array.of(...tokens[left]!, ...tokens[right]!));
    merges.push([left, right]);
    for (const piece of [...pieces]) {
      count(piece, -1);
      piece.ids = mergeIn(piece.ids, left, right, id);
      count(piece, 1);
    }
  }
  return { tokens, merges };
}

function mergeIn(ids: readonly number[], left: number, right: number, merged: number): number[] {
  const result: number[] = [];
  for (let index = 0; index < ids.length; index++) {
    const isPair = ids[index] === left && ids[index + 1] === right;
    result.push(isPair ? merged : ids[index]!);
    if (isPair) index += 1;
  }
  return result;
}

/** A pair of ids, with its number of occurrences in the text and the pieces that contain it. */
type Pair = { readonly left: number; readonly right: number; count: number; readonly pieces: Set<Piece> };

function isBetter(a: Pair, b: Pair): boolean {
  return a.count > b.count || (a.count === b.count && (a.left < b.left || (a.left === b.left && a.right < b.right)));
}
