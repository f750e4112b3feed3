// Reads a parsed tokenizer.json as a byte-level BPE definition. Truncation, padding and
// post-processing in the file are ignored on purpose: they would add or lose tokens that nothing
// counts. Strings are converted to bytes once and looked up as bytes: a file has 150,000 tokens and
// as many merges.

import type { AddedToken } from "./added-tokens.ts";
import type { BpeDefinition } from "./byte-level-bpe.ts";
import { byteCharacters, writeBytesOf, ByteTable, MergeTable } from "./byte-table.ts";
import { gpt2Pattern } from "./pre-tokenizers.ts";
import {
  normalizeText,
  type NormalForm,
  literalPattern,
  translatePattern,
  UnsupportedPattern,
  type SplitStep,
} from "./split-pattern.ts";
import { readAddedTokens, readVocabulary, type Vocabulary } from "./read-vocabulary.ts";
import { nameOf, type PlainObject, TokenizerJson } from "./tokenizer-json.ts";

const encoder = new TextEncoder();

/**
 * The bytes of every token. Added tokens that are searched in normalized text are also decoded as
 * normalized text.
 */
function buildByteTable(
  vocabulary: Vocabulary,
  added: readonly AddedToken[],
  options: { readonly json: TokenizerJson; readonly normalize: (text: string) => string },
): ByteTable {
  const { json, normalize } = options;
  const size =
    1 +
    Math.max(
      vocabulary.ids.reduce((largest, id) => Math.max(largest, id), 0),
      ...added.map((token) => token.id),
    );
  const table = new ByteTable(size);
  let scratch = new Uint8Array(1024);
  const insert = (text: string, id: number): boolean => {
    if (scratch.length < text.length) scratch = new Uint8Array(text.length * 2);
    const length = writeBytesOf(text, scratch, 0);
    if (length >= 0) return table.add(id, scratch, 0, length);
    // A name with a character that stands for no byte is decoded as its own text.
    const bytes = encoder.encode(text);
    return table.addHidden(id, bytes, 0, bytes.length);
  };
  vocabulary.names.forEach((name, index) => {
    const id = vocabulary.ids[index] ?? 0;
    if (!insert(name, id)) throw json.error(`model.vocab gives the id ${id} to ${nameOf(name)} and to another token`);
  });
  for (const { content, id, normalized } of added) {
    if (!table.has(id)) insert(normalized ? normalize(content) : content, id);
  }
  return table;
}

/** Merges are written "a b" or ["a", "b"]. */
function buildMergeTable(value: unknown, tokens: ByteTable, json: TokenizerJson): MergeTable {
  const merges = json.array(value, "model.merges");
  const table = new MergeTable(merges.length);
  let scratch = new Uint8Array(1024);
  for (let rank = 0; rank < merges.length; rank++) {
    const merge: unknown = merges[rank];
    const space = typeof merge === "string" ? merge.indexOf(" ") : -1;
    const parts = typeof merge === "string" ? [merge.slice(0, Math.max(0, space)), merge.slice(space + 1)] : merge;
    const [left, right] = Array.isArray(parts) && parts.length === 2 ? (parts as unknown[]) : [];
    if (typeof left !== "string" || typeof right !== "string" || left === "" || right === "") {
      throw json.error(`model.merges[${rank}] is ${nameOf(merge)}, expected "left right" or ["left", "right"]`);
    }
    const length = left.length + right.length;
    if (scratch.length < length) scratch = new Uint8Array(length * 2);
    const middle = writeBytesOf(left, scratch, 0);
    const end = middle + writeBytesOf(right, scratch, middle);
    // Merges of names that are not bytes are never reached.
    if (middle < 0 || end < middle) continue;
    const leftId = tokens.find(scratch, 0, middle);
    const rightId = tokens.find(scratch, middle, end);
    const merged = tokens.find(scratch, 0, end);
    if (leftId < 0 || rightId < 0 || merged < 0) {
      throw json.error(
        `model.merges[${rank}] joins ${nameOf(left)} and ${nameOf(right)}, which needs a token that model.vocab lacks`,
      );
    }
    table.set(leftId, rightId, rank, merged);
  }
  return table;
}

const normalFormNames: readonly unknown[] = ["NFC", "NFD", "NFKC", "NFKD"] satisfies readonly NormalForm[];

function readStep(part: PlainObject, isLast: boolean, json: TokenizerJson): SplitStep[] {
  switch (part["type"]) {
    case "Split":
      return [readSplit(part, json)];
    case "Digits":
      return [isolate(json.flag(part["individual_digits"], "individual_digits") ? "\\p{N}" : "\\p{N}+")];
    case "ByteLevel":
      // An absent field means true, as for Hugging Face.
      if (!isLast || part["add_prefix_space"] !== false) throw new NotByteLevelBpe("it adds a space before each piece");
      return part["use_regex"] === false ? [] : [isolate(gpt2Pattern)];
    default:
      throw new NotByteLevelBpe(`its pre-tokenizer has the part ${nameOf(part["type"])}`);
  }
}

function readSplit(part: PlainObject, json: TokenizerJson): SplitStep {
  const pattern = json.object(part["pattern"], "pre_tokenizer.pattern");
  const written = pattern["Regex"] ?? pattern["String"];
  const text = json.string(written, "pre_tokenizer.pattern.Regex");
  const inverted = json.flag(part["invert"], "pre_tokenizer.invert");
  const behavior = part["behavior"];
  if (behavior !== "Isolated" && behavior !== "Removed") {
    throw new NotByteLevelBpe(`its pre-tokenizer splits by ${nameOf(behavior)}`);
  }
  const keep = behavior === "Isolated" ? "both" : inverted ? "matches" : "gaps";
  return { pattern: pattern["Regex"] === undefined ? literalPattern(text) : translate(text), keep };
}

function isolate(pattern: string): SplitStep {
  return { pattern: translate(pattern), keep: "both" };
}

function translate(pattern: string): RegExp {
  try {
    return translatePattern(pattern);
  } catch (error) {
    if (error instanceof UnsupportedPattern) throw new NotByteLevelBpe(error.message);
    throw error;
  }
}

/** A kind of tokenizer that our own code does not cover. Its message completes "because ...". */
export class NotByteLevelBpe extends Error {}

/**
 * Throws {@link NotByteLevelBpe} for other kinds of tokenizer, and a `ConfigurationError` that
 * names `source` and the field for a file that is not a tokenizer.json.
 */
export function readBpe(parsed: unknown, source: string): BpeDefinition {
  const json = new TokenizerJson(source);
  const root = json.object(parsed, "its content");
  const model = json.object(root["model"], "model");
  // Files from before 2021 do not name the type.
  const kind = model["type"] ?? ("merges" in model ? "BPE" : undefined);
  if (kind !== "BPE") throw new NotByteLevelBpe(`its model is of type ${nameOf(kind)}`);
  for (const key of ["dropout", "continuing_subword_prefix", "end_of_word_suffix"]) {
    if (model[key]) throw new NotByteLevelBpe(`its model has a ${key}`);
  }
  const decoders = json.sequence(root["decoder"], "decoder", "decoders");
  if (decoders.length !== 1 || decoders[0]?.["type"] !== "ByteLevel") {
    throw new NotByteLevelBpe("its decoder is not ByteLevel");
  }
  const parts = json.sequence(root["pre_tokenizer"], "pre_tokenizer", "pretokenizers");
  if (parts.at(-1)?.["type"] !== "ByteLevel") throw new NotByteLevelBpe("its pre-tokenizer does not end in ByteLevel");
  const steps = parts.flatMap((part, index) => readStep(part, index + 1 === parts.length, json));
  const normalForms = json.sequence(root["normalizer"], "normalizer", "normalizers").map(({ type }) => {
    if (normalFormNames.includes(type)) return type as NormalForm;
    throw new NotByteLevelBpe(`its normalizer is ${nameOf(type)}`);
  });
  const vocabulary = readVocabulary(model["vocab"], json);
  if (byteCharacters.some((character) => vocabulary.idOf(character) === null)) {
    throw new NotByteLevelBpe("its vocabulary lacks some bytes");
  }
  const addedTokens = readAddedTokens(root["added_tokens"], vocabulary, json);
  const normalize = (text: string): string => normalizeText(text, normalForms);
  const tokens = buildByteTable(vocabulary, addedTokens, { json, normalize });
  return {
    tokens,
    merges: buildMergeTable(model["merges"], tokens, json),
    ignoreMerges: json.flag(model["ignore_merges"], "model.ignore_merges"),
    normalForms,
    steps,
    addedTokens,
  };
}
