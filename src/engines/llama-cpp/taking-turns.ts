// Evaluations and changes of caches take turns. The library computes batches in a loop under one
// lock, as long as any sequence asks for more, and a change of a cache needs the same lock: without
// a pause it would wait until all other episodes have ended.

import { canCopyState, copyState, type LlamaSequence } from "./llama-library.ts";

/** The sequences of one context. While the cache of one is changed, no further evaluation of any begins. */
export function takeTurns(sequences: readonly LlamaSequence[]): readonly LlamaSequence[] {
  const changes = new Changes();
  const originals = new WeakMap<LlamaSequence, LlamaSequence>();
  return sequences.map((sequence) => {
    const pausing: LlamaSequence = {
      get nextTokenIndex() {
        return sequence.nextTokenIndex;
      },
      get contextTokens() {
        return sequence.contextTokens;
      },
      adaptStateToTokens: (tokens, allowShift) => changes.make(() => sequence.adaptStateToTokens(tokens, allowShift)),
      clearHistory: () => changes.make(() => sequence.clearHistory()),
      controlledEvaluate: async (input) => {
        await changes.none();
        return sequence.controlledEvaluate(input);
      },
      ...(canCopyState(sequence) && {
        _copyStateFromOtherSequence: (other: LlamaSequence, tokens: number) =>
          changes.make(() => copyState(sequence, originals.get(other) ?? other, tokens)),
      }),
    };
    originals.set(pausing, sequence);
    return pausing;
  });
}

class Changes {
  #inProgress = 0;
  #waiting: (() => void)[] = [];

  async make<T>(change: () => Promise<T>): Promise<T> {
    this.#inProgress++;
    try {
      return await change();
    } finally {
      if (--this.#inProgress === 0) for (const resume of this.#waiting.splice(0)) resume();
    }
  }

  async none(): Promise<void> {
    while (this.#inProgress > 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }
}
