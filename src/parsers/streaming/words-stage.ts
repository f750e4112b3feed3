// Shows words as they come, and holds back what may turn out not to be words: the beginning of a marker, white space that
// may be stripped. Costs time in proportion to the text, however small the pieces are.

import { pythonLstrip, pythonRstrip } from "../../python-semantics/index.ts";

/** Beginnings held back in a row: Trinity deletes its two thinking tags, so that `<tool</th<think>ink>_call>` is one marker. */
const heldLinks = 3;

export type WordsStageOptions = {
  /** From the first of these on nothing is shown. */
  readonly ends: readonly string[];
  /** The same where one of them is the very beginning. */
  readonly endsAtStart: readonly string[];
};

export class WordsStage {
  readonly #ends: readonly string[];
  readonly #endsAtStart: readonly string[];
  /** White space behind what was shown; kept apart, so that a long run is not searched again with every piece. */
  #blanks: string[] = [];
  /** Not shown yet: beginnings of ends, so never long. */
  #held = "";
  #hasBegun = false;
  #hasShown = false;
  #isOver = false;

  constructor({ ends, endsAtStart }: WordsStageOptions) {
    this.#ends = ends;
    this.#endsAtStart = endsAtStart;
  }

  /** True once an end was seen. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** What can be shown now that `piece` has come; never white space at the beginning or at the end of all that is shown. */
  push(piece: string): string {
    if (this.#isOver || piece === "") return "";
    if (!this.#hasBegun) {
      this.#hasBegun = true;
      if (this.#endsAtStart.some((end) => piece.startsWith(end))) {
        this.#isOver = true;
        return "";
      }
    }
    const text = this.#held + piece;
    const found = this.#ends.map((end) => text.indexOf(end)).filter((at) => at !== -1);
    const limit = found.length === 0 ? text.length : Math.min(...found);
    let sureEnd = limit;
    for (let link = found.length === 0 ? 0 : 1; link < heldLinks; link++) {
      sureEnd -= beginningOfOne(text, sureEnd, this.#ends);
    }
    const sure = text.slice(0, sureEnd);
    this.#isOver = found.length > 0;
    this.#held = text.slice(sure.length);
    return this.#show(sure);
  }

  #show(sure: string): string {
    const words = pythonRstrip(sure);
    const blank = sure.slice(words.length);
    if (words === "") {
      if (this.#hasShown) this.#blanks.push(blank);
      return "";
    }
    const shown = this.#hasShown ? this.#blanks.join("") + words : pythonLstrip(words);
    this.#blanks = [blank];
    this.#hasShown = true;
    return shown;
  }
}

/** Length of the longest ending of `text.slice(0, limit)` that could become one of the markers. */
export function beginningOfOne(text: string, limit: number, markers: readonly string[]): number {
  let longest = 0;
  for (const marker of markers) {
    for (let length = Math.min(marker.length - 1, limit); length > longest; length--) {
      if (text.startsWith(marker.slice(0, length), limit - length)) {
        longest = length;
        break;
      }
    }
  }
  return longest;
}
