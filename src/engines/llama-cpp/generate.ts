// One generation on one sequence: the prompt goes into the cache, then token after token is chosen
// here from the full row of logits. The library could choose too, but it reports the probability
// after truncation, and its randomness cannot be seeded by us.

import { createSemaphore, type Semaphore } from "../../lib/limits.ts";
import { createRandom } from "../../lib/random.ts";
import {
  adjustLogits,
  chooseToken,
  endingOf,
  type Generated,
  type GenerateOptions,
  type GenerationParams,
} from "../token-sampling.ts";
import type { LlamaSequence } from "./llama-library.ts";

/** Number of prompt tokens that are computed between two checks for an abort. */
const promptChunk = 512;

/** Ends with reason "abort" and the tokens so far, soon after the signal aborts. */
export async function generate(
  sequence: LlamaSequence,
  request: {
    readonly prompt: Uint32Array;
    readonly params: GenerationParams;
    readonly vocabularySize: number;
    readonly weightVersion: string | null;
    readonly onTokens: GenerateOptions["onTokens"];
    readonly signal: AbortSignal;
  },
): Promise<Generated> {
  const { params, vocabularySize, weightVersion: version, onTokens, signal } = request;
  const prompt = [...request.prompt];
  // The last token is always computed, for the logits after it. Cached keys and values at other
  // positions are not shifted into place, because they depend on their positions.
  await sequence.adaptStateToTokens(prompt.slice(0, -1), false);
  // Number of tokens that the cache kept: some kinds of models drop more than requested.
  const cachedTokens = sequence.nextTokenIndex;
  const ids: number[] = [];
  const logprobs: number[] = [];
  const counts = new Map<number, number>();
  const { next: uniform } = createRandom(params.seed);
  const logits = new Float32Array(vocabularySize);
  let pending = prompt.slice(cachedTokens);
  for (;;) {
    const reason = endingOf(params, ids) ?? (signal.aborted ? "abort" : null);
    if (reason !== null) {
      const versions = ids.length === 0 ? [] : [{ version, count: ids.length }];
      return { reason, ids: Uint32Array.from(ids), logprobs: Float32Array.from(logprobs), versions, cachedTokens };
    }
    if (pending.length > promptChunk) {
      await sequence.controlledEvaluate(pending.slice(0, promptChunk));
      pending = pending.slice(promptChunk);
      continue;
    }
    const last = pending.at(-1) ?? 0;
    const rows = await sequence.controlledEvaluate([
      ...pending.slice(0, -1),
      [last, { generateNext: { logits: true } }],
    ]);
    readLogits(rows.at(-1)?.next.logits, logits);
    adjustLogits(logits, params, counts);
    const { token, logprob } = chooseToken(...powersOf(logits, params.temperature), params, uniform);
    ids.push(token);
    onTokens?.([token]);
    logprobs.push(logprob);
    counts.set(token, (counts.get(token) ?? 0) + 1);
    pending = [token];
  }
}

function readLogits(row: ReadonlyMap<number, number> | undefined, into: Float32Array): void {
  if (row === undefined || row.size === 0) throw new Error("It gave no logits for the next token.");
  into.fill(-Infinity);
  for (const [token, logit] of row) into[token] = logit;
}

/**
 * Replaces logits by e^(logit / temperature) up to a common factor, in place, and returns their sum
 * too.
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

type SequenceLease = {
  readonly sequence: LlamaSequence;
  /** `isSound` is true if the cache matches its tokens; otherwise it is cleared before the next use. */
  release(this: void, isSound: boolean): void;
};

type Slot = { readonly sequence: LlamaSequence; key: string | null; isSound: boolean };

export class SequencePool {
  /** Idle slots in the order of their release. */
  readonly #idle: Slot[];
  readonly #permits: Semaphore;

  constructor(sequences: readonly LlamaSequence[]) {
    this.#idle = sequences.map((sequence) => ({ sequence, key: null, isSound: true }));
    this.#permits = createSemaphore(sequences.length);
  }

  /** Calls wait in the order of arrival; rejects with the signal's reason, without holding anything. */
  async acquire(key: string | null, signal: AbortSignal): Promise<SequenceLease> {
    const releasePermit = await this.#permits.acquire(signal);
    const own = key === null ? -1 : this.#idle.findIndex((slot) => slot.key === key);
    const [slot] = this.#idle.splice(Math.max(0, own), 1);
    if (slot === undefined) throw new Error("There are as many permits as sequences.");
    slot.key = key;
    const release = (isSound: boolean): void => {
      slot.isSound = isSound;
      this.#idle.push(slot);
      releasePermit();
    };
    try {
      if (!slot.isSound) await slot.sequence.clearHistory();
    } catch (error) {
      release(false);
      throw error;
    }
    return { sequence: slot.sequence, release };
  }
}
