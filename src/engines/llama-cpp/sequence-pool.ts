// Who gets which sequence of the context. The turns of an episode come back to the sequence that has their prefix in its cache;
// a new episode takes the one that was left alone for longest.

import { createSemaphore, type Semaphore } from "../../lib/limits.ts";
import type { LlamaSequence } from "./llama-library.ts";

export type SequenceLease = {
  readonly sequence: LlamaSequence;
  /** `isSound`: its cache is what its tokens say; otherwise it is emptied before the next use. */
  release(this: void, isSound: boolean): void;
};

type Slot = { readonly sequence: LlamaSequence; key: string | null; isSound: boolean };

export class SequencePool {
  /** In the order they were left. */
  readonly #idle: Slot[];
  readonly #permits: Semaphore;

  constructor(sequences: readonly LlamaSequence[]) {
    this.#idle = sequences.map((sequence) => ({ sequence, key: null, isSound: true }));
    this.#permits = createSemaphore(sequences.length);
  }

  /** Waits in the order of arrival; rejects with the signal's reason, holding nothing. */
  async acquire(key: string | null, signal: AbortSignal): Promise<SequenceLease> {
    const giveBack = await this.#permits.acquire(signal);
    const own = key === null ? -1 : this.#idle.findIndex((slot) => slot.key === key);
    const [slot] = this.#idle.splice(Math.max(0, own), 1);
    if (slot === undefined) throw new Error("There are as many permits as sequences.");
    slot.key = key;
    const release = (isSound: boolean): void => {
      slot.isSound = isSound;
      this.#idle.push(slot);
      giveBack();
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
