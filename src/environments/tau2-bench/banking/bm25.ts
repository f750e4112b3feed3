// The ranking of documents by the words of a query, with the formula and constants of Okapi BM25 as
// the reference's library has them. Every sum is computed in the reference's order, so scores are
// equal to the last digit shown.

import { pythonLower, whitespaceClass } from "../../../python-semantics/index.ts";

/** A document's index with its score. */
export type Hit = { readonly index: number; readonly score: number };

const constants = { k1: 1.5, b: 0.75, epsilon: 0.25 };

/** The documents that contain a word, and how often. */
type Word = { readonly documents: number[]; readonly counts: number[]; weight: number };

const gaps = new RegExp(`[${whitespaceClass}]+`, "u");

/** `text.lower().split()`. */
function wordsOf(text: string): string[] {
  return pythonLower(text)
    .split(gaps)
    .filter((word) => word !== "");
}

export class Bm25 {
  readonly #size: number;
  /** Words in the order of their first occurrence. */
  readonly #words = new Map<string, Word>();
  /** The part of the formula that depends only on the length of a document. */
  readonly #lengths: readonly number[];

  constructor(texts: readonly string[]) {
    this.#size = texts.length;
    const lengths = texts.map((text, index) => this.#add(wordsOf(text), index));
    const mean = lengths.reduce((sum, length) => sum + length, 0) / texts.length;
    const { k1, b } = constants;
    this.#lengths = lengths.map((length) => k1 * (1 - b + (b * length) / mean));
    this.#weigh();
  }

  /** The best documents, the best one first, and equal ones in their order. */
  search(query: string, most: number): Hit[] {
    const scores = new Float64Array(this.#size);
    for (const name of wordsOf(query)) {
      const word = this.#words.get(name);
      if (word === undefined) continue;
      for (const [at, index] of word.documents.entries()) {
        const count = word.counts[at]!;
        scores[index]! += word.weight * ((count * (constants.k1 + 1)) / (count + this.#lengths[index]!));
      }
    }
    const hits = Array.from(scores, (score, index) => ({ index, score }));
    return hits.sort((left, right) => right.score - left.score).slice(0, most);
  }

  #add(words: readonly string[], index: number): number {
    for (const name of words) {
      let word = this.#words.get(name);
      if (word === undefined) this.#words.set(name, (word = { documents: [], counts: [], weight: 0 }));
      const last = word.documents.length - 1;
      if (word.documents[last] === index) word.counts[last]!++;
      else {
        word.documents.push(index);
        word.counts.push(1);
      }
    }
    return words.length;
  }

  /** Words of more than half of the documents weigh a share of the mean instead of less than nothing. */
  #weigh(): void {
    let sum = 0;
    for (const word of this.#words.values()) {
      const count = word.documents.length;
      word.weight = Math.log(this.#size - count + 0.5) - Math.log(count + 0.5);
      sum += word.weight;
    }
    const least = constants.epsilon * (sum / this.#words.size);
    for (const word of this.#words.values()) if (word.weight < 0) word.weight = least;
  }
}
