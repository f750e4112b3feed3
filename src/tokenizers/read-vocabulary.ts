// Vocabulary and added tokens of a tokenizer.json, for every kind of model whose vocabulary maps tokens to ids.

import type { AddedToken } from "./added-tokens.ts";
import { largestId, nameOf, type TokenizerJson } from "./tokenizer-json.ts";

/**
 * Tokens by name. Two arrays, because iterating a dictionary of 150,000 names costs 40 ms each
 * time.
 */
export type Vocabulary = {
  readonly names: readonly string[];
  /** Aligned with `names`. */
  readonly ids: Uint32Array;
  readonly idOf: (name: string) => number | null;
};

/** Checks that `value` maps tokens to ids. */
export function readVocabulary(value: unknown, json: TokenizerJson): Vocabulary {
  const byName = json.object(value, "model.vocab");
  const names = Object.keys(byName);
  const ids = new Uint32Array(names.length);
  names.forEach((name, index) => {
    const id = byName[name];
    if (typeof id !== "number" || !Number.isInteger(id) || id < 0 || id > largestId) {
      const rule = `expected an integer from 0 to ${largestId}`;
      throw json.error(`model.vocab has the id ${nameOf(id)} for ${nameOf(name)}, ${rule}`);
    }
    ids[index] = id;
  });
  const idOf = (name: string): number | null => (Object.hasOwn(byName, name) ? (byName[name] as number) : null);
  return { names, ids, idOf };
}

/**
 * The added tokens with the ids Hugging Face gives them: that of the vocabulary, or else the next
 * free one after it. Hugging Face ignores the "id" in the file, so it is ignored here.
 */
export function readAddedTokens(
  value: unknown,
  vocabulary: Pick<Vocabulary, "names" | "idOf">,
  json: TokenizerJson,
): AddedToken[] {
  const byContent = new Map<string, AddedToken>();
  let next = vocabulary.names.length;
  if (value === undefined || value === null) return [];
  json.array(value, "added_tokens").forEach((element, index) => {
    const path = `added_tokens[${index}]`;
    const entry = json.object(element, path);
    const flag = (key: string): boolean => json.flag(entry[key], `${path}.${key}`);
    const content = json.string(entry["content"], `${path}.content`);
    if (content === "") return;
    const id = byContent.get(content)?.id ?? vocabulary.idOf(content) ?? next;
    if (id >= next) next = id + 1;
    byContent.set(content, {
      id,
      content,
      singleWord: flag("single_word"),
      lstrip: flag("lstrip"),
      rstrip: flag("rstrip"),
      normalized: flag("normalized"),
      special: flag("special"),
    });
  });
  return [...byContent.values()];
}

/** The model of a tokenizer: it turns pieces of text into ids. */
export type TextModel = {
  readonly vocabulary: Pick<Vocabulary, "names" | "ids" | "idOf">;
  /** Id of the unknown token; `null` if there is none. */
  readonly unknownId: number | null;
  /** Appends the ids of a piece; a piece is never empty. */
  readonly encode: (piece: string, ids: number[]) => void;
};

/** The ids of the 256 tokens that stand for bytes; -1 for missing ones. */
export function byteTokenIds(idOf: (name: string) => number | null): Int32Array {
  return Int32Array.from({ length: 256 }, (_, byte) => {
    const name = `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
    return idOf(name) ?? -1;
  });
}
