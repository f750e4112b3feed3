// Continuous batching on one decoder: at every step, each running generation that awaits its next
// token has a row, and chunks of prompts fill the remaining rows. Synchronous, without threads or
// clocks; `worker-main.ts` drives it. A score is a sequence that samples nothing: its rows yield the
// logprobs of the tokens after them.

import { type Decoder, firstNotFinite, pageTokens } from "../../learner/model/index.ts";
import type { ScoreRequest, ScoreResult } from "../../core/scoring.ts";
import { createRandom } from "../../lib/random.ts";
import { plainParams } from "../plain-params.ts";
import {
  adjustLogits,
  chooseToken,
  type Generated,
  type GenerationParams,
  type Ending,
  endingOf,
} from "../token-sampling.ts";
import { PageCache, type PageNode } from "./page-cache.ts";
import { MaskList } from "../mask-list.ts";
import { RowScores } from "../row-scores.ts";

export type SchedulerEvents = {
  /** Called for each token as it is sampled. */
  readonly onToken: (call: number, token: number, logprob: number) => void;
  readonly onFinish: (call: number, finished: Generated) => void;
  /** `null` if the score was aborted. */
  readonly onScored: (call: number, scores: ScoreResult | null) => void;
  /** The model yielded no distribution to sample from; `problem` is the reason. The call is done. */
  readonly onFault: (call: number, problem: string) => void;
};

export type SchedulerOptions = {
  readonly decoder: Decoder;
  /**
   * The capacity that the decoder was created with: concurrent sequences, and pages of the cache
   * (enough for one whole context).
   */
  readonly maxSequences: number;
  readonly pages: number;
  readonly weightVersion: string | null;
};

export class Scheduler {
  readonly #decoder: Decoder;
  readonly #events: SchedulerEvents;
  readonly #cache: PageCache;
  readonly #slots: number[];
  #waiting: Sequence[] = [];
  #running: Sequence[] = [];
  #version: string | null;

  constructor(options: SchedulerOptions, events: SchedulerEvents) {
    this.#decoder = options.decoder;
    this.#events = events;
    this.#cache = new PageCache(options.pages);
    this.#slots = Array.from({ length: options.maxSequences }, (_, slot) => slot);
    this.#version = options.weightVersion;
  }

  get isIdle(): boolean {
    return this.#running.length + this.#waiting.length === 0;
  }

  /**
   * `call` identifies the generation in events. The prompt must not be empty, and prompt and token
   * limit together must fit the context.
   */
  add(call: number, prompt: Uint32Array, params: GenerationParams): void {
    const sequence = new Sequence(call, prompt, params);
    if (params.maxNewTokens === 0) this.#events.onFinish(call, sequence.finish("length"));
    else this.#waiting.push(sequence);
  }

  /** Like `add`, for a valid request whose tokens fit the context. */
  addScore(call: number, request: Pick<ScoreRequest, "tokens" | "from" | "topTokens">): void {
    // No token follows the last one.
    const sequence = new Sequence(call, request.tokens.subarray(0, -1), plainParams, new RowScores(request));
    this.#waiting.push(sequence);
  }

  /** Ends a generation with the tokens sampled so far, and a score; unknown calls are ignored. */
  abort(call: number): void {
    const sequence = [...this.#running, ...this.#waiting].find((one) => one.call === call);
    if (sequence !== undefined) this.#end(sequence, "abort");
  }

  abortAll(): void {
    for (const sequence of [...this.#running, ...this.#waiting]) this.#end(sequence, "abort");
  }

  /** Removes running generations from the cache; they resume later like waiting ones. */
  retractAll(): void {
    for (const sequence of this.#running.toReversed()) this.#retract(sequence);
  }

  /**
   * Replaces the weights and drops the whole cache: unfinished generations compute their tokens
   * again.
   */
  setWeights(weights: Float32Array, version: string | null): void {
    this.retractAll();
    this.#cache.clear();
    this.#decoder.setWeights(weights);
    this.#version = version;
  }

  /** Drops prefixes that no running generation needs. */
  flushCache(): void {
    this.#cache.clear();
  }

  /** Computes one batch, and samples for each sequence whose last known token was in it. */
  step(): void {
    this.#admit();
    const decoder = this.#decoder;
    /** Rows whose logits are requested, and what each belongs to. */
    const rows: number[] = [];
    const outputs: { readonly sequence: Sequence; readonly place: number }[] = [];
    const inBatch = new Set<Sequence>();
    // Sequences that await a single token go first, so that long prompts never delay them.
    const byLength = [...this.#running].sort((a, b) => Number(this.#isPrompt(a)) - Number(this.#isPrompt(b)));
    for (const sequence of byLength) {
      if (sequence.slot < 0 || decoder.capacity === 0) continue;
      if (sequence.pages.length === 0) this.#begin(sequence);
      const end = Math.min(sequence.length, sequence.computed + decoder.capacity);
      if (!this.#givePages(sequence, end, inBatch)) continue;
      inBatch.add(sequence);
      for (let place = sequence.computed; place < end; place++) {
        const row = decoder.add(sequence.tokens[place]!, place, sequence.slot);
        if (place < sequence.firstOutput) continue;
        rows.push(row);
        outputs.push({ sequence, place });
      }
      sequence.computed = end;
    }
    decoder.run(rows);
    for (const sequence of this.#running) this.#share(sequence);
    outputs.forEach(({ sequence, place }, index) => this.#read(sequence, place, index));
  }

  #isPrompt(sequence: Sequence): boolean {
    return sequence.length - sequence.computed > 1;
  }

  #admit(): void {
    while (this.#waiting.length > 0 && this.#slots.length > 0) {
      const sequence = this.#waiting.shift()!;
      sequence.slot = this.#slots.pop()!;
      this.#running.push(sequence);
    }
  }

  /** Starts from the cached prefix of its tokens; those whose logits are needed are always computed. */
  #begin(sequence: Sequence): void {
    const { node, pages, partial, partialTokens } = this.#cache.match(
      sequence.tokens.subarray(0, sequence.firstOutput),
    );
    this.#cache.hold(node);
    sequence.node = node;
    sequence.pages.push(...pages);
    sequence.sharedPages = pages.length;
    sequence.computed = pages.length * pageTokens;
    this.#decoder.pageTable(sequence.slot).set(pages);
    if (partial !== null) {
      const page = this.#cache.take();
      if (page !== null) {
        this.#decoder.copyPage(partial.page, page);
        this.#addPage(sequence, page);
        sequence.computed += partialTokens;
      }
    }
    sequence.cachedTokens ??= Math.min(sequence.computed, sequence.promptLength);
  }

  /**
   * Allocates pages for all tokens up to `end`, and retracts the youngest sequences outside the
   * batch if necessary. False if this sequence itself was retracted.
   */
  #givePages(sequence: Sequence, end: number, inBatch: ReadonlySet<Sequence>): boolean {
    while (sequence.pages.length * pageTokens < end) {
      const page = this.#cache.take();
      if (page !== null) {
        this.#addPage(sequence, page);
        continue;
      }
      const youngest = this.#running.findLast((one) => !inBatch.has(one))!;
      this.#retract(youngest);
      if (youngest === sequence) return false;
    }
    return true;
  }

  #addPage(sequence: Sequence, page: number): void {
    this.#decoder.pageTable(sequence.slot)[sequence.pages.length] = page;
    sequence.pages.push(page);
  }

  /** Adds the full pages of a sequence to the shared tree. */
  #share(sequence: Sequence): void {
    while ((sequence.sharedPages + 1) * pageTokens <= sequence.computed) {
      const place = sequence.sharedPages;
      const tokens = sequence.tokens.slice(place * pageTokens, (place + 1) * pageTokens);
      const node = this.#cache.add(sequence.node, sequence.pages[place]!, tokens);
      this.#cache.hold(node);
      this.#cache.release(sequence.node);
      sequence.node = node;
      sequence.pages[place] = node.page;
      this.#decoder.pageTable(sequence.slot)[place] = node.page;
      sequence.sharedPages += 1;
    }
  }

  /** Takes the logits after a token of the sequence. */
  #read(sequence: Sequence, place: number, index: number): void {
    // Logits before it in the batch were faulty.
    if (sequence.slot < 0) return;
    const logits = this.#decoder.logits(index);
    const fault = faultOf(logits);
    if (fault !== null) {
      this.#remove(sequence);
      this.#events.onFault(
        sequence.call,
        `after ${place + 1} tokens ${fault}; the training of these weights diverged: load an earlier checkpoint`,
      );
      return;
    }
    if (sequence.scores === null) this.#sample(sequence, index);
    else this.#score(sequence, sequence.scores, { place, index });
  }

  #score(
    sequence: Sequence,
    scores: RowScores,
    { place, index }: { readonly place: number; readonly index: number },
  ): void {
    scores.take(place, this.#decoder.logits(index), () => this.#decoder.temper(index, 1));
    if (place < sequence.length - 1) return;
    this.#remove(sequence);
    this.#events.onScored(sequence.call, scores.result(this.#version));
  }

  #sample(sequence: Sequence, index: number): void {
    const { params } = sequence;
    const logits = this.#decoder.logits(index);
    adjustLogits(logits, params, sequence.counts);
    const sum = this.#decoder.temper(index, 1 / params.temperature);
    const { token, logprob, kept } = chooseToken(logits, sum, params, sequence.uniform);
    sequence.push(token, logprob, this.#version);
    sequence.mask.add(kept);
    this.#events.onToken(sequence.call, token, logprob);
    const { ending } = sequence;
    if (ending !== null) this.#end(sequence, ending);
  }

  #end(sequence: Sequence, reason: Ending): void {
    this.#remove(sequence);
    if (sequence.scores === null) this.#events.onFinish(sequence.call, sequence.finish(reason));
    else this.#events.onScored(sequence.call, null);
  }

  #remove(sequence: Sequence): void {
    this.#waiting = this.#waiting.filter((one) => one !== sequence);
    this.#leave(sequence);
  }

  #retract(sequence: Sequence): void {
    this.#leave(sequence);
    this.#waiting.unshift(sequence);
  }

  /**
   * Releases slot and pages. The content of a partly filled page stays cached for sequences that
   * continue from it.
   */
  #leave(sequence: Sequence): void {
    if (sequence.slot < 0) return;
    this.#running = this.#running.filter((one) => one !== sequence);
    this.#slots.push(sequence.slot);
    sequence.slot = -1;
    const rest = sequence.tokens.slice(sequence.sharedPages * pageTokens, sequence.computed);
    sequence.pages.slice(sequence.sharedPages).forEach((page, index) => {
      if (index === 0 && rest.length > 0) this.#cache.add(sequence.node, page, rest);
      else this.#cache.releasePage(page);
    });
    this.#cache.release(sequence.node);
    sequence.node = null;
    sequence.pages.length = 0;
    sequence.sharedPages = 0;
    sequence.computed = 0;
  }
}

/**
 * The reason why logits are not a distribution; `null` if they are one. If a hidden state
 * overflows, the norm after it makes all logits 0.
 */
function faultOf(logits: Float32Array): string | null {
  const wrong = firstNotFinite(logits);
  if (wrong >= 0) return `the logit of token ${wrong} is ${logits[wrong]}`;
  return logits.every((logit) => logit === 0) ? "all logits are 0" : null;
}

class Sequence {
  readonly call: number;
  /** `null` for a generation. */
  readonly scores: RowScores | null;
  readonly params: GenerationParams;
  readonly promptLength: number;
  readonly uniform: () => number;
  /** Number of times each token was sampled. */
  readonly counts = new Map<number, number>();
  readonly mask = new MaskList();
  /** The prompt, then the sampled tokens. */
  readonly #tokens: Uint32Array;
  readonly #logprobs: Float32Array;
  readonly #versions: { version: string | null; count: number }[] = [];
  #length: number;

  /** Number of tokens whose keys and values are in the cache. */
  computed = 0;
  /** Row in the decoder's page tables; -1 while the sequence waits. */
  slot = -1;
  /** Pages in the order of the sequence's tokens; the first `sharedPages` are nodes of the tree. */
  readonly pages: number[] = [];
  sharedPages = 0;
  /** The last of the shared pages, which is protected from eviction. */
  node: PageNode | null = null;
  /** `null` until the sequence has begun. */
  cachedTokens: number | null = null;

  constructor(call: number, prompt: Uint32Array, params: GenerationParams, scores: RowScores | null = null) {
    this.call = call;
    this.scores = scores;
    this.params = params;
    this.promptLength = prompt.length;
    this.#tokens = new Uint32Array(prompt.length + params.maxNewTokens);
    this.#tokens.set(prompt);
    this.#logprobs = new Float32Array(params.maxNewTokens);
    this.#length = prompt.length;
    this.uniform = createRandom(params.seed).next;
  }

  get length(): number {
    return this.#length;
  }

  /** Position of the first token whose logits are needed. */
  get firstOutput(): number {
    return this.scores === null ? this.#length - 1 : this.scores.from - 1;
  }

  /** All tokens so far, without a copy. */
  get tokens(): Uint32Array {
    return this.#tokens.subarray(0, this.#length);
  }

  get sampledLength(): number {
    return this.#length - this.promptLength;
  }

  /** The reason why the generation ends now; `null` if it continues. */
  get ending(): "matched" | "length" | null {
    return endingOf(this.params, this.#tokens.subarray(this.promptLength, this.#length));
  }

  push(token: number, logprob: number, version: string | null): void {
    this.#logprobs[this.sampledLength] = logprob;
    this.#tokens[this.#length] = token;
    this.#length += 1;
    this.counts.set(token, (this.counts.get(token) ?? 0) + 1);
    const last = this.#versions.at(-1);
    if (last !== undefined && last.version === version) last.count += 1;
    else this.#versions.push({ version, count: 1 });
  }

  finish(reason: Ending): Generated {
    return {
      reason,
      ids: this.#tokens.slice(this.promptLength, this.#length),
      logprobs: this.#logprobs.slice(0, this.sampledLength),
      mask: this.mask.result(this.params),
      versions: this.#versions,
      cachedTokens: this.cachedTokens ?? 0,
    };
  }
}
