// Evaluations and changes of caches take turns. The library computes batches in a loop under one
// lock, as long as any sequence asks for more, and a change of a cache needs the same lock: without
// a pause it would wait until all other episodes have ended.

import { canCopyState, copyState, type LlamaInput, type LlamaRow, type LlamaSequence } from "./llama-library.ts";

/** The sequences of one context. While the cache of one is changed, no further evaluation of any begins. */
export function takeTurns(sequences: readonly LlamaSequence[]): readonly LlamaSequence[] {
  const changes = new Changes();
  return sequences.map((sequence) => new PausingSequence(sequence, changes));
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

class PausingSequence implements LlamaSequence {
  readonly #sequence: LlamaSequence;
  readonly #changes: Changes;
  /** Absent where the library has no such method. */
  readonly _copyStateFromOtherSequence?: (other: LlamaSequence, tokens: number) => Promise<boolean>;

  constructor(sequence: LlamaSequence, changes: Changes) {
    this.#sequence = sequence;
    this.#changes = changes;
    if (!canCopyState(sequence)) return;
    this._copyStateFromOtherSequence = (other, tokens) => {
      const source = other instanceof PausingSequence ? other.#sequence : other;
      return changes.make(() => copyState(sequence, source, tokens));
    };
  }

  get nextTokenIndex(): number {
    return this.#sequence.nextTokenIndex;
  }

  get contextTokens(): readonly number[] {
    return this.#sequence.contextTokens;
  }

  adaptStateToTokens(tokens: readonly number[], allowShift: false): Promise<void> {
    return this.#changes.make(() => this.#sequence.adaptStateToTokens(tokens, allowShift));
  }

  clearHistory(): Promise<void> {
    return this.#changes.make(() => this.#sequence.clearHistory());
  }

  async controlledEvaluate(input: readonly LlamaInput[]): Promise<readonly LlamaRow[]> {
    await this.#changes.none();
    return this.#sequence.controlledEvaluate(input);
  }
}
