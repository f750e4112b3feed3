// One generation: its tokens, which of them have keys and values in the cache, and what was sampled.

import { createRandom } from "../../lib/random.ts";
import { type Ending, endingOf, type GenerationParams, type TokenCounts } from "../token-sampling.ts";
import type { PageNode } from "./page-cache.ts";

/** A run of tokens that the same weights sampled. */
export type VersionRun = { readonly version: string | null; readonly count: number };

export type Finished = {
  readonly reason: Ending;
  readonly ids: Uint32Array;
  /** One per id. */
  readonly logprobs: Float32Array;
  readonly versions: readonly VersionRun[];
  /** Prompt tokens that needed no computation when it began. */
  readonly cachedTokens: number;
};

export class Sequence {
  readonly call: number;
  readonly params: GenerationParams;
  readonly promptLength: number;
  readonly uniform: () => number;
  /** How often each token was sampled. */
  readonly counts: TokenCounts;
  /** Prompt, then what was sampled. */
  readonly #tokens: Uint32Array;
  readonly #logprobs: Float32Array;
  readonly #versions: { version: string | null; count: number }[] = [];
  readonly #counts = new Map<number, number>();
  #length: number;

  /** How many tokens have their keys and values in the cache. */
  computed = 0;
  /** Row of the decoder's page tables; -1: waits. */
  slot = -1;
  /** Pages in the order of its tokens; the first `sharedPages` are nodes of the tree. */
  readonly pages: number[] = [];
  sharedPages = 0;
  /** The last of the shared pages, held. */
  node: PageNode | null = null;
  /** `null`: it has not begun. */
  cachedTokens: number | null = null;

  constructor(call: number, prompt: Uint32Array, params: GenerationParams) {
    this.call = call;
    this.params = params;
    this.promptLength = prompt.length;
    this.#tokens = new Uint32Array(prompt.length + params.maxNewTokens);
    this.#tokens.set(prompt);
    this.#logprobs = new Float32Array(params.maxNewTokens);
    this.#length = prompt.length;
    this.uniform = createRandom(params.seed).next;
    this.counts = this.#counts;
  }

  get length(): number {
    return this.#length;
  }

  /** All tokens so far, without a copy. */
  get tokens(): Uint32Array {
    return this.#tokens.subarray(0, this.#length);
  }

  get sampledLength(): number {
    return this.#length - this.promptLength;
  }

  /** Why it ends with what it has; `null`: it continues. */
  get ending(): "matched" | "length" | null {
    return endingOf(this.params, this.#tokens.subarray(this.promptLength, this.#length));
  }

  push(token: number, logprob: number, version: string | null): void {
    this.#logprobs[this.sampledLength] = logprob;
    this.#tokens[this.#length] = token;
    this.#length += 1;
    this.#counts.set(token, (this.#counts.get(token) ?? 0) + 1);
    const last = this.#versions.at(-1);
    if (last !== undefined && last.version === version) last.count += 1;
    else this.#versions.push({ version, count: 1 });
  }

  finish(reason: Finished["reason"]): Finished {
    return {
      reason,
      ids: this.#tokens.slice(this.promptLength, this.#length),
      logprobs: this.#logprobs.slice(0, this.sampledLength),
      versions: this.#versions,
      cachedTokens: this.cachedTokens ?? 0,
    };
  }
}
