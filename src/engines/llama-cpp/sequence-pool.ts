// The sequences of a context, each with a cache of keys and values. An episode keeps its sequence
// between its turns, and a prompt that begins like another sequence's takes that beginning from
// there instead of computing it: the first of a group computes what the group shares, and the
// others wait for it and copy.

import { createSemaphore, type Semaphore } from "../../lib/limits.ts";
import { canCopyState, copyState, type LlamaSequence } from "./llama-library.ts";

/** Copying fewer tokens than this is not worth the wait for a sequence that is in use. */
const fewTokens = 32;

export type SequenceLease = {
  readonly sequence: LlamaSequence;
  /**
   * Hands the beginning of the cache to those who wait for it. Called between evaluations, while
   * the cache matches its tokens.
   */
  share(this: void): Promise<void>;
  /** `isSound` is true if the cache matches its tokens; otherwise it is cleared before the next use. */
  release(this: void, isSound: boolean): void;
};

/** A copy that waits until the source has computed that many tokens. */
type Copy = { readonly tokens: number; run(this: void, isPossible: boolean): Promise<void> };

type Slot = {
  readonly sequence: LlamaSequence;
  /** The episode that returns to it; `null` if none does. */
  key: string | null;
  isSound: boolean;
  /**
   * The prompt of the call that uses it; `null` while it is idle, or waits for a copy and so holds
   * only what it did before.
   */
  prompt: Uint32Array | null;
  readonly waiting: Set<Copy>;
};

export class SequencePool {
  readonly #slots: readonly Slot[];
  /** Idle slots in the order of their release. */
  readonly #idle: Slot[];
  readonly #permits: Semaphore;

  readonly #canCopy: boolean;

  constructor(sequences: readonly LlamaSequence[]) {
    this.#canCopy = sequences.every(canCopyState);
    this.#slots = sequences.map((sequence) => ({
      sequence,
      key: null,
      isSound: true,
      prompt: null,
      waiting: new Set(),
    }));
    this.#idle = [...this.#slots];
    this.#permits = createSemaphore(sequences.length);
  }

  /**
   * Resolves with a sequence whose cache holds as much of the prompt's beginning as any. Calls wait
   * in the order of arrival; rejects with the signal's reason, without holding anything.
   */
  async acquire(key: string | null, prompt: Uint32Array, signal: AbortSignal): Promise<SequenceLease> {
    const releasePermit = await this.#permits.acquire(signal);
    const source = this.#sourceFor(key, prompt);
    const slot = this.#take(key, source);
    slot.key = key;
    const tokens = source === null ? 0 : source.tokens;
    const copies =
      this.#canCopy && source !== null && source.slot !== slot && tokens >= heldBy(slot, prompt) + fewTokens;
    // A call without a source is one for those that begin while it is still computing.
    if (!copies) slot.prompt = prompt;
    const release = (isSound: boolean): void => {
      slot.isSound = isSound;
      slot.prompt = null;
      for (const copy of slot.waiting) void copy.run(false);
      slot.waiting.clear();
      this.#idle.push(slot);
      releasePermit();
    };
    try {
      if (!slot.isSound) await slot.sequence.clearHistory();
      slot.isSound = true;
      if (copies) await copyBeginning(slot.sequence, { source: source.slot, tokens, signal });
    } catch (error) {
      release(false);
      throw error;
    }
    slot.prompt = prompt;
    return { sequence: slot.sequence, share: () => shareBeginning(slot), release };
  }

  get size(): number {
    return this.#slots.length;
  }

  /** The next episode may have the sequence of the one with this key, which has ended. */
  end(key: string): void {
    for (const slot of this.#slots) if (slot.key === key) slot.key = null;
  }

  /** The slot that holds, or computes, most of the prompt's beginning; `null` if none holds any. */
  #sourceFor(key: string | null, prompt: Uint32Array): { readonly slot: Slot; readonly tokens: number } | null {
    // The episode's own comes first: of equals it is best, because nothing is copied.
    const own = this.#slots.filter((slot) => key !== null && slot.key === key);
    let found: Slot | null = null;
    let most = 0;
    for (const slot of [...own, ...this.#slots]) {
      const tokens = heldBy(slot, prompt);
      if (tokens > most) [found, most] = [slot, tokens];
    }
    return found === null ? null : { slot: found, tokens: most };
  }

  /**
   * An episode's own slot; else one that no episode returns to; else the one that is idle longest.
   * What the source holds stays where it is, if another slot can be taken and it can be copied.
   */
  #take(key: string | null, source: { readonly slot: Slot } | null): Slot {
    const own = key === null ? undefined : this.#idle.find((slot) => slot.key === key);
    const free = this.#idle.filter((slot) => slot.key === null);
    const kept = free.filter((slot) => slot !== source?.slot);
    const reused = free.find((slot) => slot === source?.slot);
    const slot = own ?? (this.#canCopy ? (kept[0] ?? reused) : (reused ?? kept[0])) ?? this.#idle[0];
    if (slot === undefined) throw new Error("There are as many permits as sequences.");
    this.#idle.splice(this.#idle.indexOf(slot), 1);
    return slot;
  }
}

/** Number of tokens of the prompt's beginning that the slot holds, or will once its call has computed them. */
function heldBy(slot: Slot, prompt: Uint32Array): number {
  if (!slot.isSound) return 0;
  return Math.min(prompt.length - 1, commonPrefix(slot.prompt ?? slot.sequence.contextTokens, prompt));
}

async function copyBeginning(
  sequence: LlamaSequence,
  { source, tokens, signal }: { readonly source: Slot; readonly tokens: number; readonly signal: AbortSignal },
): Promise<void> {
  const copy = async (): Promise<void> => {
    const isDone = await copyState(sequence, source.sequence, tokens);
    if (!isDone) await sequence.clearHistory();
  };
  if (source.prompt === null) await copy();
  else await waitForCopy(source, { tokens, copy, signal });
}

/** Waits for the source's next pause with enough tokens; does nothing if it ends before. */
function waitForCopy(
  source: Slot,
  {
    tokens,
    copy,
    signal,
  }: { readonly tokens: number; readonly copy: () => Promise<void>; readonly signal: AbortSignal },
): Promise<void> {
  return new Promise((resolve, reject) => {
    const leave = (): void => {
      source.waiting.delete(waiting);
      reject(signal.reason as Error);
    };
    const waiting: Copy = {
      tokens,
      run: async (isPossible) => {
        signal.removeEventListener("abort", leave);
        await (isPossible ? copy() : Promise.resolve()).then(resolve, reject);
      },
    };
    signal.addEventListener("abort", leave, { once: true });
    source.waiting.add(waiting);
  });
}

async function shareBeginning(slot: Slot): Promise<void> {
  for (const copy of [...slot.waiting]) {
    if (copy.tokens > slot.sequence.nextTokenIndex || !slot.waiting.delete(copy)) continue;
    await copy.run(true);
  }
}

function commonPrefix(one: ArrayLike<number>, other: ArrayLike<number>): number {
  const most = Math.min(one.length, other.length);
  let length = 0;
  while (length < most && one[length] === other[length]) length++;
  return length;
}
