// Rows of logits, and the choice of a token from one. The library returns a whole row as one
// JavaScript number for each token, which for a vocabulary of 150,000 costs twice as much as
// computing the token itself. So only the head of a row is fetched, its most probable tokens, and
// one number for all others: the sum of their weights, which logprobs need. llama.cpp computes that
// sum from the row with the head excluded; a sum over the whole row is wrong by up to 8e-4, because
// it adds floats of 32 bits and the many small weights vanish beside the large ones.
//
// The library reads a row once by its documented methods, and this needs two reads. Its own context
// can read the row of the running batch any number of times; it is not documented, so it is compared
// with a whole row once, and whole rows are fetched wherever it is absent or differs.

import { adjustLogits, type ChosenToken, chooseToken, type GenerationParams } from "../token-sampling.ts";
import type {
  LlamaContext,
  LlamaInput,
  LlamaSequence,
  NativeContext,
  NativeResult,
  NativeSampler,
} from "./llama-library.ts";

/** Number of tokens in a head; outside of it are 0.4 % of the draws of a model of half a billion parameters. */
const headSize = 2048;
/** Vocabularies up to this size are read as whole rows. */
const smallVocabulary = 4 * headSize;
/**
 * Largest share of the weights outside the head. llama.cpp adds them as floats of 32 bits; measured
 * errors of logprobs are below 1e-5 at a share of 0.06.
 */
const largestTail = 0.1;
/** Largest difference between logprobs from the head and from the whole row. */
const tolerance = 1e-4;

/** Inputs of the choice of a token besides its row. */
export type Choice = {
  readonly params: GenerationParams;
  /** Number of times that each token was sampled so far. */
  readonly counts: ReadonlyMap<number, number>;
  /** Returns a number in [0, 1). */
  readonly uniform: () => number;
};

/** A row of the running batch, which can be read until `read` resolves. */
type Row = { readonly index: number; readonly sampler: NativeSampler };

/** The most probable tokens of a row. */
type Head = {
  /** The most probable first. */
  readonly ids: Uint32Array;
  /** e^((logit - highest logit) / temperature), aligned with `ids`. */
  readonly powers: Float32Array;
  /** Sum of the powers of the whole row. */
  readonly sum: number;
};

/** Chooses tokens from the rows of one context. */
export class Rows {
  readonly #vocabularySize: number;
  readonly #native: NativeContext | null;
  /** Reads of rows that are about to be computed, by the list that the library passes through. */
  readonly #reads = new WeakMap<object, (row: Row) => Promise<void>>();
  /** True once a head was found equal to its whole row; false if it was not. */
  #isProven: boolean | null = null;

  constructor({ _ctx: native }: LlamaContext, vocabularySize: number) {
    this.#vocabularySize = vocabularySize;
    this.#native = vocabularySize > smallVocabulary ? this.#intercept(native) : null;
  }

  /** Appends the tokens to the sequence, and chooses the token after them. */
  async next(sequence: LlamaSequence, tokens: readonly number[], choice: Choice): Promise<ChosenToken> {
    const last = tokens.at(-1) ?? 0;
    const before: readonly LlamaInput[] = tokens.slice(0, -1);
    if (this.#native === null || this.#isProven === false) {
      const rows = await sequence.controlledEvaluate([...before, [last, { generateNext: { logits: true } }]]);
      return this.#fromWhole(rows.at(-1)?.next.logits ?? [], choice);
    }
    let chosen: ChosenToken | null = null;
    const input = this.#inputReadBy(last, async (row) => {
      chosen = await this.#choose(row, choice);
    });
    await sequence.controlledEvaluate([...before, input]);
    if (chosen === null) throw new Error("It computed no row for the next token.");
    return chosen;
  }

  /**
   * Appends the tokens to the sequence. `take` receives the whole row of logits after each token
   * from the index `from` on, in their order.
   */
  async whole(
    sequence: LlamaSequence,
    tokens: readonly number[],
    { from, take }: { readonly from: number; readonly take: (index: number, logits: Float32Array) => void },
  ): Promise<void> {
    const taken = new Set<number>();
    const read = (index: number, pairs: Iterable<readonly [id: number, logit: number]>): void => {
      take(index, this.#read(pairs));
      taken.add(index);
    };
    const isNative = this.#native !== null;
    const input = tokens.map((token, index): LlamaInput => {
      if (index < from) return token;
      if (!isNative) return [token, { generateNext: { logits: true } }];
      return this.#inputReadBy(token, async (row) => read(index, await this.#whole(row)));
    });
    const rows = await sequence.controlledEvaluate(input);
    if (!isNative) for (const [index, row] of rows.entries()) if (index >= from) read(index, row?.next.logits ?? []);
    if (taken.size < tokens.length - from) throw new Error("It computed no row for some of the tokens.");
  }

  /** The token, with a row after it that `read` reads. */
  #inputReadBy(token: number, read: (row: Row) => Promise<void>): LlamaInput {
    // The library passes the list of tokens through unchanged, so it identifies the call.
    const key = [0];
    this.#reads.set(key, read);
    return [token, { generateNext: { logits: { filter: { tokens: key } } } }];
  }

  /** Lets our code read the rows of our own calls. `null` if the context is not as expected. */
  #intercept(native: NativeContext | undefined): NativeContext | null {
    if (typeof native?.sampleToken !== "function") return null;
    const original = native.sampleToken.bind(native);
    const sampleToken: NativeContext["sampleToken"] = async (index, sampler, ...rest) => {
      const [, , filter] = rest;
      const read = Array.isArray(filter) ? this.#reads.get(filter[0] as object) : undefined;
      if (read === undefined) return original(index, sampler, ...rest);
      await read({ index, sampler });
      return [-1];
    };
    Object.defineProperty(native, "sampleToken", { value: sampleToken, configurable: true });
    return { sampleToken: original };
  }

  async #choose(row: Row, choice: Choice): Promise<ChosenToken> {
    const { params, counts } = choice;
    if (needsWholeRow(params, counts)) return this.#fromWhole(await this.#whole(row), choice);
    const head = await this.#head(row, params.temperature);
    if (this.#isProven === null) {
      const whole = powersOf(this.#read(await this.#whole(row)), params.temperature);
      this.#isProven = isHeadOf(head, whole);
      if (!this.#isProven) return chooseToken(...whole, params, choice.uniform);
    }
    // One number for the draw, whichever part of the row it falls into.
    const drawn = params.topK === 1 ? 0 : choice.uniform();
    return (
      chooseFromHead(head, params, drawn) ??
      this.#outside(head, { ...choice, uniform: () => drawn }, await this.#whole(row))
    );
  }

  async #head({ index, sampler }: Row, temperature: number): Promise<Head> {
    // One more than the head: the highest logit of the tail.
    const pairs = await this.#sorted({ index, sampler }, { temperature: 1, seed: 0, topK: headSize + 1 });
    const highest = pairs[0]![1];
    const [, tailLogit] = pairs.pop()!;
    const ids = Uint32Array.from(pairs, ([id]) => id);
    const powers = Float32Array.from(pairs, ([, logit]) => Math.exp((logit - highest) / temperature));
    const excluded = new Float32Array(ids.length).fill(-Infinity);
    sampler.applyConfig({
      ...(temperature === 1 ? {} : { temperature, seed: 0 }),
      tokenBiasKeys: ids,
      tokenBiasValues: excluded,
    });
    const [, , , , total] = await this.#native!.sampleToken(index, sampler, false, false, false, true);
    if (typeof total !== "number") throw new Error("It gave no sum of the weights.");
    const tail = Math.exp((tailLogit - highest) / temperature) * total;
    return { ids, powers, sum: powers.reduce((sum, power) => sum + power, 0) + tail };
  }

  /** The logits that such a sampler keeps, the highest first; equal ones by their ids. */
  async #sorted({ index, sampler }: Row, config: Parameters<NativeSampler["applyConfig"]>[0]) {
    sampler.applyConfig(config);
    const result = await this.#native!.sampleToken(index, sampler, false, false, true, false);
    const pairs = [...pairsOf(result)];
    if (pairs.length !== headSize + 1) throw new Error(`It gave ${pairs.length} logits for the next token.`);
    return pairs.sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  }

  async #whole({ index, sampler }: Row): Promise<Iterable<readonly [id: number, logit: number]>> {
    sampler.applyConfig({});
    return pairsOf(await this.#native!.sampleToken(index, sampler, false, false, true, false));
  }

  #fromWhole(pairs: Iterable<readonly [id: number, logit: number]>, choice: Choice): ChosenToken {
    const { params, counts, uniform } = choice;
    const logits = this.#read(pairs);
    adjustLogits(logits, params, counts);
    return chooseToken(...powersOf(logits, params.temperature), params, uniform);
  }

  /** A draw that the head does not decide. */
  #outside(head: Head, choice: Choice, pairs: Iterable<readonly [id: number, logit: number]>): ChosenToken {
    const { params, uniform } = choice;
    const [powers, sum] = powersOf(this.#read(pairs), params.temperature);
    if (!isUncut(params)) return chooseToken(powers, sum, params, uniform);
    // The draw continues after the head, over all other tokens by their ids.
    let threshold = uniform() * sum;
    for (const id of head.ids) threshold -= powers[id]!;
    const others = powers.slice();
    for (const id of head.ids) others[id] = 0;
    const rest = others.reduce((total, power) => total + power, 0);
    const { token } = chooseToken(others, rest, params, () => Math.max(0, threshold / rest));
    return { token, logprob: Math.min(0, Math.log(powers[token]!) - Math.log(sum)), kept: null };
  }

  #read(pairs: Iterable<readonly [id: number, logit: number]>): Float32Array {
    const logits = new Float32Array(this.#vocabularySize).fill(-Infinity);
    let count = 0;
    for (const [token, logit] of pairs) {
      logits[token] = logit;
      count++;
    }
    if (count === 0) throw new Error("It gave no logits for the next token.");
    return logits;
  }
}

/** True if the choice depends on logits that may be outside the head. */
function needsWholeRow(params: GenerationParams, counts: ReadonlyMap<number, number>): boolean {
  const { frequencyPenalty, presencePenalty, repetitionPenalty, logitBias, minNewTokens } = params;
  if (frequencyPenalty !== 0 || presencePenalty !== 0 || repetitionPenalty !== 1 || logitBias.size > 0) return true;
  let sampled = 0;
  for (const count of counts.values()) sampled += count;
  return sampled < minNewTokens;
}

function isUncut({ topK, topP, minP }: GenerationParams): boolean {
  return topK === -1 && topP >= 1 && minP <= 0;
}

/** `null` if the whole row is needed: too much weight is outside, or the draw falls there. */
function chooseFromHead({ ids, powers, sum }: Head, params: GenerationParams, drawn: number): ChosenToken | null {
  let inside = 0;
  for (const power of powers) inside += power;
  if (sum - inside > largestTail * sum) return null;
  const { topK, topP, minP } = params;
  if (isUncut(params)) {
    if (drawn * sum >= inside) return null;
  } else {
    const lowest = powers.at(-1)!;
    const isCut = (topK !== -1 && topK <= ids.length) || inside - lowest > topP * sum || lowest < powers[0]! * minP;
    if (!isCut) return null;
  }
  const { token, logprob, kept } = chooseToken(powers, sum, params, () => drawn);
  return { token: ids[token]!, logprob, kept: kept?.map((place) => ids[place]!) ?? null };
}

/** True if the head is that of the row, and gives its logprobs. */
function isHeadOf(head: Head, [powers, sum]: readonly [powers: Float32Array, sum: number]): boolean {
  const isSame = head.ids.every((id, at) => Math.abs(powers[id]! - head.powers[at]!) <= tolerance);
  return isSame && Math.abs(Math.log(head.sum) - Math.log(sum)) <= tolerance;
}

function* pairsOf([, , , logits = []]: NativeResult): Iterable<readonly [id: number, logit: number]> {
  for (let at = 1; at < logits.length; at += 2) yield [logits[at - 1]!, logits[at]!];
}

/**
 * Replaces logits by e^((logit - highest) / temperature), in place, and returns their sum too.
 */
function powersOf(logits: Float32Array, temperature: number): readonly [powers: Float32Array, sum: number] {
  let most = -Infinity;
  for (const logit of logits) most = Math.max(most, logit);
  let sum = 0;
  for (let token = 0; token < logits.length; token++) {
    logits[token] = Math.exp((logits[token]! - most) / temperature);
    sum += logits[token]!;
  }
  return [logits, sum];
}
