// Sequences of different lengths side by side, without padding, for one pass of the network. What all of them begin with
// (guidelines and tools, in a batch of episodes) may be computed once: every sequence attends to it, and gradients flow
// back into it from all of them.

/** One sequence and what is wanted of it. */
export type TrainingSequence = {
  readonly tokens: ArrayLike<number>;
  /** Places of the tokens whose logprob is wanted, each given the tokens before it; never 0. */
  readonly targets: ArrayLike<number>;
};

export type PackedBatch = {
  /** The shared prefix, then what each sequence has beyond it. */
  readonly tokens: Uint32Array;
  /** Aligned with `tokens`: the place in its own sequence. */
  readonly positions: Uint32Array;
  /** 0: nothing is shared. */
  readonly prefixLength: number;
  /** Tokens that each sequence has beyond the prefix. */
  readonly lengths: readonly number[];
  /** Rows of `tokens` that predict something, ascending. */
  readonly outputRows: Uint32Array;
  /** One per logprob wanted, sequence by sequence: the token that shall be predicted. */
  readonly targets: Uint32Array;
  /** Aligned with `targets`: the place in `outputRows` of the row that predicts it. */
  readonly targetOutputs: Uint32Array;
};

/**
 * Packs sequences that begin with the same `prefixLength` tokens, which is not checked. Throws a `RangeError` for a target
 * that has nothing before it, and for a sequence that has nothing beyond the prefix.
 */
export function packSequences(
  sequences: readonly TrainingSequence[],
  options: { readonly prefixLength?: number } = {},
): PackedBatch {
  const { prefixLength = 0 } = options;
  const lengths = sequences.map(({ tokens }) => tokens.length - prefixLength);
  if (lengths.some((length) => length < 1)) {
    throw new RangeError(`Cannot pack a batch: a sequence has no token beyond the shared prefix of ${prefixLength}.`);
  }
  const total = prefixLength + lengths.reduce((sum, length) => sum + length, 0);
  const targetCount = sequences.reduce((sum, { targets }) => sum + targets.length, 0);
  const allTokens = new Uint32Array(total);
  const positions = new Uint32Array(total);
  const wanted = new Uint32Array(targetCount);
  const rows = new Uint32Array(targetCount);
  for (let place = 0; place < prefixLength; place++) {
    allTokens[place] = sequences[0]!.tokens[place]!;
    positions[place] = place;
  }
  let row = prefixLength;
  let target = 0;
  for (const sequence of sequences) {
    const { tokens, targets } = sequence;
    for (let index = 0; index < targets.length; index++, target++) {
      const place = targets[index]!;
      if (!(place >= 1 && place < tokens.length)) {
        throw new RangeError(`Cannot pack a batch: target ${place} lies outside 1 to ${tokens.length - 1}.`);
      }
      const before = place - 1;
      rows[target] = before < prefixLength ? before : row + before - prefixLength;
      wanted[target] = tokens[place]!;
    }
    for (let place = prefixLength; place < tokens.length; place++, row++) {
      allTokens[row] = tokens[place]!;
      positions[row] = place;
    }
  }
  const outputRows = Uint32Array.from(new Set(rows)).sort();
  const places = new Map(Array.from(outputRows, (outputRow, index) => [outputRow, index]));
  const targetOutputs = rows.map((outputRow) => places.get(outputRow)!);
  return { tokens: allTokens, positions, prefixLength, lengths, outputRows, targets: wanted, targetOutputs };
}
