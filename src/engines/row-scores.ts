// The scores of one sequence, taken from its logits row by row. Rows may come twice, if the sequence
// is computed again under new weights; the last ones count.

import { highestTokens, type ScoreRequest, type ScoreResult, type TopTokens } from "../core/scoring.ts";

export class RowScores {
  readonly from: number;
  readonly #tokens: Uint32Array;
  readonly #logprobs: Float32Array;
  readonly #top: TopTokens | null;

  constructor({ tokens, from, topTokens: width }: Pick<ScoreRequest, "tokens" | "from" | "topTokens">) {
    const count = tokens.length - from;
    this.from = from;
    this.#tokens = tokens;
    this.#logprobs = new Float32Array(count);
    const size = count * width;
    this.#top = width === 0 ? null : { width, ids: new Uint32Array(size), logprobs: new Float32Array(size) };
  }

  /**
   * Takes the logits after the token at `place`. `sum` is called once, returns the sum of
   * e^(logit - highest logit) over all tokens, and may overwrite the logits.
   */
  take(place: number, logits: Float32Array, sum: () => number): void {
    const index = place + 1 - this.from;
    let highest = -Infinity;
    for (const logit of logits) highest = Math.max(highest, logit);
    const own = logits[this.#tokens[place + 1]!]!;
    const ids = this.#top === null ? null : highestTokens(logits, this.#top.width);
    const best = ids === null ? null : Float64Array.from(ids, (id) => logits[id]!);
    const shift = highest + Math.log(sum());
    this.#logprobs[index] = Math.min(0, own - shift);
    if (this.#top === null || ids === null || best === null) return;
    const start = index * this.#top.width;
    this.#top.ids.set(ids, start);
    this.#top.logprobs.set(
      best.map((logit) => Math.min(0, logit - shift)),
      start,
    );
  }

  result(weightVersion: string | null): ScoreResult {
    return { logprobs: this.#logprobs, top: this.#top, weightVersion };
  }
}
