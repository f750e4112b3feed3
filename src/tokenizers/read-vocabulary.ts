// "vocab", "merges" and "added_tokens" of a tokenizer.json as the tables that encoding needs. Written for speed: a file has
// 150,000 tokens and as many merges, so strings are turned to bytes once and looked up as bytes.

import type { AddedToken } from "./added-tokens.ts";
import { byteCharacters, writeBytesOf } from "./byte-alphabet.ts";
import { ByteTable } from "./byte-table.ts";
import { MergeTable } from "./merge-table.ts";
import { NotByteLevelBpe, nameOf, type TokenizerJson } from "./tokenizer-json.ts";

/** Tokens by name. Two arrays, because walking a dictionary of 150,000 names costs 40 ms each time. */
export type Vocabulary = {
  readonly names: readonly string[];
  /** Aligned with `names`. */
  readonly ids: Uint32Array;
  readonly idOf: (name: string) => number | null;
};

/** Tables are as long as the largest id, so a file with one absurd id must not take the memory of the machine. */
export const largestId = 2 ** 24;

const encoder = new TextEncoder();

/** Checks that `value` maps tokens to ids, and that each byte is a token. */
export function readVocabulary(value: unknown, json: TokenizerJson): Vocabulary {
  const byName = json.object(value, "model.vocab");
  const names = Object.keys(byName);
  const ids = new Uint32Array(names.length);
  names.forEach((name, index) => {
    const id = byName[name];
    if (typeof id !== "number" || !Number.isInteger(id) || id < 0 || id > largestId) {
      const wanted = `an integer from 0 to ${largestId} wanted`;
      throw json.error(`model.vocab has the id ${nameOf(id)} for ${nameOf(name)}, ${wanted}`);
    }
    ids[index] = id;
  });
  const idOf = (name: string): number | null => (Object.hasOwn(byName, name) ? (byName[name] as number) : null);
  if (byteCharacters.some((character) => idOf(character) === null)) {
    throw new NotByteLevelBpe("its vocabulary lacks some bytes");
  }
  return { names, ids, idOf };
}

/**
 * The added tokens with the ids Hugging Face gives them: that of the vocabulary, or else the next free one after it. The
 * "id" in the file is ignored there, so it is here.
 */
export function readAddedTokens(value: unknown, vocabulary: Vocabulary, json: TokenizerJson): AddedToken[] {
  const byContent = new Map<string, AddedToken>();
  let next = vocabulary.names.length;
  if (value === undefined || value === null) return [];
  json.array(value, "added_tokens").forEach((element, index) => {
    const path = `added_tokens[${index}]`;
    const entry = json.object(element, path);
    const content = json.string(entry["content"], `${path}.content`);
    if (content === "") return;
    const id = byContent.get(content)?.id ?? vocabulary.idOf(content) ?? next;
    if (id >= next) next = id + 1;
    byContent.set(content, {
      id,
      content,
      singleWord: json.flag(entry["single_word"], `${path}.single_word`),
      lstrip: json.flag(entry["lstrip"], `${path}.lstrip`),
      rstrip: json.flag(entry["rstrip"], `${path}.rstrip`),
      normalized: json.flag(entry["normalized"], `${path}.normalized`),
      special: json.flag(entry["special"], `${path}.special`),
    });
  });
  return [...byContent.values()];
}

/** The bytes of every token. Added tokens that are looked for in normalized text are decoded as normalized text, too. */
export function buildByteTable(
  vocabulary: Vocabulary,
  added: readonly AddedToken[],
  options: { readonly json: TokenizerJson; readonly normalize: (text: string) => string },
): ByteTable {
  const { json, normalize } = options;
  const size = 1 + Math.max(vocabulary.ids.reduce(larger, 0), ...added.map((token) => token.id));
  const table = new ByteTable(size);
  let scratch = new Uint8Array(1024);
  const insert = (text: string, id: number): boolean => {
    if (scratch.length < text.length) scratch = new Uint8Array(text.length * 2);
    const length = writeBytesOf(text, scratch, 0);
    if (length >= 0) return table.add(id, scratch, 0, length);
    // A name with a character that stands for no byte is decoded as the text it is.
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
export function buildMergeTable(value: unknown, tokens: ByteTable, json: TokenizerJson): MergeTable {
  const merges = json.array(value, "model.merges");
  const table = new MergeTable(merges.length);
  let scratch = new Uint8Array(1024);
  for (let rank = 0; rank < merges.length; rank++) {
    const merge: unknown = merges[rank];
    let left: unknown;
    let right: unknown;
    if (typeof merge === "string") {
      const space = merge.indexOf(" ");
      left = merge.slice(0, Math.max(0, space));
      right = merge.slice(space + 1);
    } else if (Array.isArray(merge) && merge.length === 2) {
      left = merge[0];
      right = merge[1];
    }
    if (typeof left !== "string" || typeof right !== "string" || left === "" || right === "") {
      throw json.error(`model.merges[${rank}] is ${nameOf(merge)}, "left right" or ["left", "right"] wanted`);
    }
    const length = left.length + right.length;
    if (scratch.length < length) scratch = new Uint8Array(length * 2);
    const middle = writeBytesOf(left, scratch, 0);
    const end = middle + writeBytesOf(right, scratch, middle);
    // Merges of names that are no bytes are never reached.
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

function larger(a: number, b: number): number {
  return Math.max(a, b);
}
