// The model "Unigram" of SentencePiece: among all segmentations of a piece, the one whose tokens
// have the largest sum of log probabilities. Characters without a token count as unknown, and
// become bytes if the vocabulary has them.

import { MergeTable } from "./byte-table.ts";
import { byteTokenIds, type TextModel } from "./read-vocabulary.ts";
import { nameOf, type PlainObject, UnsupportedPart, type TokenizerJson } from "./tokenizer-json.ts";

/** An unknown character is this much less probable than the least probable token. */
const unknownPenalty = 10;

const encoder = new TextEncoder();

/** Reads a model whose vocabulary is a list of tokens with their scores. Throws an `UnsupportedPart`. */
export function readUnigram(model: PlainObject, json: TokenizerJson): TextModel {
  const { names, scores } = readScores(model["vocab"], json);
  const idByName = new Map(names.map((name, id) => [name, id]));
  const unknownId = model["unk_id"] ?? null;
  if (unknownId === null) throw new UnsupportedPart("model", "Unigram without an unk_id");
  if (typeof unknownId !== "number" || names[unknownId] === undefined) {
    throw json.error(`model.unk_id is ${nameOf(unknownId)}, the place of a token in model.vocab expected`);
  }
  const idOf = (name: string): number | null => idByName.get(name) ?? null;
  const byteIds = json.flag(model["byte_fallback"], "model.byte_fallback") ? byteTokenIds(idOf) : null;
  const unknownScore = scores.reduce((least, score) => Math.min(least, score), Infinity) - unknownPenalty;
  const trie = new TokenTrie(names);
  return {
    vocabulary: { names, ids: Uint32Array.from(names, (_, id) => id), idOf },
    unknownId,
    encode: (piece, ids) => {
      for (const text of segment(piece, { trie, idOf, scores, unknownId, unknownScore })) {
        const id = idOf(text);
        const bytes = id === null && byteIds !== null ? encoder.encode(text) : null;
        if (id !== null) ids.push(id);
        else if (bytes !== null && bytes.every((byte) => byteIds![byte]! >= 0)) {
          for (const byte of bytes) ids.push(byteIds![byte]!);
        } else ids.push(unknownId);
      }
    },
  };
}

function readScores(value: unknown, json: TokenizerJson): { names: string[]; scores: Float64Array } {
  const entries = json.array(value, "model.vocab");
  const scores = new Float64Array(entries.length);
  const names = entries.map((entry, index) => {
    const [name, score, ...rest]: readonly unknown[] = json.array(entry, `model.vocab[${index}]`);
    if (typeof name !== "string" || typeof score !== "number" || rest.length > 0) {
      throw json.error(`model.vocab[${index}] is ${nameOf(entry)}, expected [token, score]`);
    }
    scores[index] = score;
    return name;
  });
  return { names, scores };
}

type Lattice = {
  readonly trie: TokenTrie;
  readonly idOf: (name: string) => number | null;
  /** Aligned with ids. */
  readonly scores: Float64Array;
  readonly unknownId: number;
  readonly unknownScore: number;
};

/**
 * The strings of the best segmentation, in order; consecutive unknown characters are one string.
 */
function segment(piece: string, { trie, idOf, scores, unknownId, unknownScore }: Lattice): readonly string[] {
  const { length } = piece;
  // The best path to each place: its score, where its last token begins, and that token. Places are
  // UTF-16 units.
  const best = new Float64Array(length + 1);
  const starts = new Int32Array(length + 1).fill(-1);
  const lastIds = new Int32Array(length + 1);
  const offer = (end: number, start: number, id: number, score: number): void => {
    if (starts[end] !== -1 && score <= best[end]!) return;
    best[end] = score;
    starts[end] = start;
    lastIds[end] = id;
  };
  for (let at = 0; at < length;) {
    const character = at + ((piece.codePointAt(at) ?? 0) > 0xffff ? 2 : 1);
    const before = best[at]!;
    let isKnown = false;
    trie.eachPrefix(piece, at, (end) => {
      const id = idOf(piece.slice(at, end))!;
      offer(end, at, id, scores[id]! + before);
      if (end === character) isKnown = true;
    });
    if (!isKnown) offer(character, at, unknownId, unknownScore + before);
    at = character;
  }
  const texts: string[] = [];
  let unknownEnd = -1;
  for (let end = length; end > 0; end = starts[end]!) {
    const start = starts[end]!;
    if (lastIds[end] === unknownId) {
      if (unknownEnd === -1) unknownEnd = end;
      if (start === 0) texts.push(piece.slice(0, unknownEnd));
      continue;
    }
    if (unknownEnd !== -1) texts.push(piece.slice(end, unknownEnd));
    unknownEnd = -1;
    texts.push(piece.slice(start, end));
  }
  return texts.reverse();
}

/**
 * All tokens, for finding those that begin at a place of a text. A node is a number; edges are in
 * one hash table.
 */
class TokenTrie {
  readonly #edges: MergeTable;
  readonly #isEnd: Uint8Array;

  constructor(names: readonly string[]) {
    const units = names.reduce((sum, name) => sum + name.length, 0);
    this.#edges = new MergeTable(units);
    this.#isEnd = new Uint8Array(units + 1);
    let nodes = 1;
    for (const name of names) {
      let node = 0;
      for (let at = 0; at < name.length; at++) {
        const unit = name.charCodeAt(at);
        const edge = this.#edges.find(node, unit);
        const next = edge < 0 ? nodes++ : this.#edges.mergedAt(edge);
        if (edge < 0) this.#edges.set(node, unit, 0, next);
        node = next;
      }
      if (node !== 0) this.#isEnd[node] = 1;
    }
  }

  /** Calls `take` with the end of each token that begins at `start`, the shortest first. */
  eachPrefix(text: string, start: number, take: (end: number) => void): void {
    let node = 0;
    for (let at = start; at < text.length; at++) {
      const edge = this.#edges.find(node, text.charCodeAt(at));
      if (edge < 0) return;
      node = this.#edges.mergedAt(edge);
      if (this.#isEnd[node] === 1) take(at + 1);
    }
  }
}
