// The models of tokenizer.json that are not byte-level BPE: they encode one piece of text as token
// ids, as Hugging Face tokenizers does. BPE starts from characters here, and falls back to bytes;
// Unigram takes the most probable segmentation; WordPiece the longest token from the left;
// WordLevel knows only whole pieces.

import { ByteMerger } from "./byte-merger.ts";
import { MergeTable } from "./byte-table.ts";
import { byteTokenIds, readVocabulary, type TextModel, type Vocabulary } from "./read-vocabulary.ts";
import { nameOf, type PlainObject, UnsupportedPart, type TokenizerJson } from "./tokenizer-json.ts";
import { readUnigram } from "./unigram.ts";

/**
 * Reads "model" of a tokenizer.json. Throws an `UnsupportedPart` for anything that is not proven.
 */
export function readModel(model: PlainObject, json: TokenizerJson): TextModel {
  // Files from before 2021 do not name the type.
  const type = model["type"] ?? ("merges" in model ? "BPE" : undefined);
  switch (type) {
    case "BPE":
      return readBpeModel(model, json);
    case "Unigram":
      checkFields(model, ["type", "unk_id", "vocab", "byte_fallback"]);
      return readUnigram(model, json);
    case "WordPiece":
      return readWordPiece(model, json);
    case "WordLevel":
      return readWordLevel(model, json);
    default:
      throw new UnsupportedPart("model", type === undefined ? "a model without a type" : nameOf(type));
  }
}

/** Unknown fields that may change ids must be absent. */
function checkFields(model: PlainObject, known: readonly string[]): void {
  for (const [key, value] of Object.entries(model)) {
    if (!known.includes(key) && value !== null && value !== false) {
      throw new UnsupportedPart("model", `the field ${nameOf(key)}`);
    }
  }
}

const encoder = new TextEncoder();

function readBpeModel(model: PlainObject, json: TokenizerJson): TextModel {
  checkFields(model, [
    "type",
    "vocab",
    "merges",
    "unk_token",
    "continuing_subword_prefix",
    "end_of_word_suffix",
    "fuse_unk",
    "byte_fallback",
    "ignore_merges",
  ].concat(model["dropout"] === 0 ? ["dropout"] : [])); // prettier-ignore
  const text = (key: string): string => json.string(model[key] ?? "", `model.${key}`);
  const [prefix, suffix] = [text("continuing_subword_prefix"), text("end_of_word_suffix")];
  const vocabulary = readDistinctVocabulary(model, json);
  const { idOf } = vocabulary;
  const unknownId = readUnknown(model, vocabulary, json);
  const fusesUnknown = json.flag(model["fuse_unk"], "model.fuse_unk");
  const ignoresMerges = json.flag(model["ignore_merges"], "model.ignore_merges");
  const byteIds = json.flag(model["byte_fallback"], "model.byte_fallback") ? byteTokenIds(idOf) : null;
  const merger = new ByteMerger(new Uint32Array(256), readMerges(model["merges"], { prefix, idOf, json }));
  let symbols = new Int32Array(256);
  let merged = new Uint32Array(256);
  return {
    vocabulary,
    unknownId,
    encode: (piece, ids) => {
      const whole = ignoresMerges ? idOf(piece) : null;
      if (whole !== null) {
        ids.push(whole);
        return;
      }
      const room = 3 * piece.length + 2 * suffix.length + prefix.length * 3 * piece.length + 1;
      if (symbols.length < room) [symbols, merged] = [new Int32Array(room), new Uint32Array(room)];
      let count = 0;
      let hasUnknown = false;
      const flushUnknown = (): void => {
        if (hasUnknown) symbols[count++] = unknownId!;
        hasUnknown = false;
      };
      for (let at = 0; at < piece.length;) {
        const end = at + ((piece.codePointAt(at) ?? 0) > 0xffff ? 2 : 1);
        const start = at === 0 ? "" : prefix;
        const symbol = start + piece.slice(at, end) + (end === piece.length ? suffix : "");
        at = end;
        const id = idOf(symbol);
        if (id !== null) {
          flushUnknown();
          symbols[count++] = id;
          continue;
        }
        const bytes = byteIds === null ? null : encoder.encode(symbol);
        if (byteIds !== null && bytes!.every((byte) => byteIds[byte]! >= 0)) {
          // An unknown character before this one is written after it, as the reference does.
          for (const byte of bytes!) symbols[count++] = byteIds[byte]!;
        } else if (unknownId !== null) {
          if (hasUnknown && !fusesUnknown) symbols[count++] = unknownId;
          hasUnknown = true;
        }
      }
      flushUnknown();
      const length = merger.mergeSymbols(symbols, count, merged);
      for (let at = 0; at < length; at++) ids.push(merged[at]!);
      // The memory for one huge piece must not be kept for ever.
      if (symbols.length > 2 ** 20) [symbols, merged] = [new Int32Array(256), new Uint32Array(256)];
    },
  };
}

/**
 * `null` if "unk_token" is null. If the vocabulary lacks the token, the reference fails at the
 * first unknown character.
 */
function readUnknown(model: PlainObject, { idOf }: Pick<Vocabulary, "idOf">, json: TokenizerJson): number | null {
  const token = model["unk_token"] ?? null;
  if (token === null) return null;
  const id = idOf(json.string(token, "model.unk_token"));
  if (id === null) throw new UnsupportedPart("model", `an unk_token, ${nameOf(token)}, that the vocabulary lacks`);
  return id;
}

/** Tokens are also looked up by their ids, so no two may share one. */
function readDistinctVocabulary(model: PlainObject, json: TokenizerJson): Vocabulary {
  const vocabulary = readVocabulary(model["vocab"], json);
  if (new Set(vocabulary.ids).size < vocabulary.ids.length) {
    throw new UnsupportedPart("model", "a vocabulary with one id for two tokens");
  }
  return vocabulary;
}

/** Merges are written "a b" or ["a", "b"]. */
function readMerges(
  value: unknown,
  options: {
    readonly prefix: string;
    readonly idOf: (name: string) => number | null;
    readonly json: TokenizerJson;
  },
): MergeTable {
  const { prefix, idOf, json } = options;
  const merges = json.array(value, "model.merges");
  const table = new MergeTable(merges.length);
  merges.forEach((merge, rank) => {
    const parts: readonly unknown[] = typeof merge === "string" ? merge.split(" ") : Array.isArray(merge) ? merge : [];
    const [left, right, ...rest] = parts;
    if (typeof left !== "string" || typeof right !== "string" || rest.length > 0) {
      throw json.error(`model.merges[${rank}] is ${nameOf(merge)}, expected "left right" or ["left", "right"]`);
    }
    if (!right.startsWith(prefix)) {
      throw new UnsupportedPart("model", "a merge whose right part lacks the continuing_subword_prefix");
    }
    const [leftId, rightId, mergedId] = [idOf(left), idOf(right), idOf(left + right.slice(prefix.length))];
    if (leftId === null || rightId === null || mergedId === null) {
      throw json.error(
        `model.merges[${rank}] joins ${nameOf(left)} and ${nameOf(right)}, which needs a token that model.vocab lacks`,
      );
    }
    table.set(leftId, rightId, rank, mergedId);
  });
  return table;
}

function readWordPiece(model: PlainObject, json: TokenizerJson): TextModel {
  checkFields(model, ["type", "vocab", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word"]);
  const vocabulary = readDistinctVocabulary(model, json);
  const prefix = json.string(model["continuing_subword_prefix"], "model.continuing_subword_prefix");
  const longest = model["max_input_chars_per_word"];
  if (typeof longest !== "number") throw json.error("model.max_input_chars_per_word is missing, expected a number");
  const unknownId = readUnknown(model, vocabulary, json);
  if (unknownId === null) throw new UnsupportedPart("model", "WordPiece without an unk_token");
  return {
    vocabulary,
    unknownId,
    encode: (piece, ids) => {
      const characters = Array.from(piece);
      const found: number[] = [];
      if (characters.length > longest) {
        ids.push(unknownId);
        return;
      }
      for (let start = 0; start < characters.length;) {
        let end = characters.length;
        let id: number | null = null;
        for (; end > start; end--) {
          id = vocabulary.idOf((start > 0 ? prefix : "") + characters.slice(start, end).join(""));
          if (id !== null) break;
        }
        if (id === null) {
          ids.push(unknownId);
          return;
        }
        found.push(id);
        start = end;
      }
      ids.push(...found);
    },
  };
}

function readWordLevel(model: PlainObject, json: TokenizerJson): TextModel {
  checkFields(model, ["type", "vocab", "unk_token"]);
  const vocabulary = readDistinctVocabulary(model, json);
  const unknownId = readUnknown(model, vocabulary, json);
  if (unknownId === null) throw new UnsupportedPart("model", "WordLevel without an unk_token");
  return { vocabulary, unknownId, encode: (piece, ids) => void ids.push(vocabulary.idOf(piece) ?? unknownId) };
}
