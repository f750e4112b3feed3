// Byte-pair encoding, the learning part: which two neighbouring tokens become one, most frequent pair first. Pieces are
// counted once and merged by weight, so the cost is that of the different pieces, not of the text.

export type TrainedMerges = {
  /** Bytes of each token: the 256 single bytes, then what the merges made, in order. */
  readonly tokens: readonly Uint8Array[];
  /** Pairs of token ids; the n-th makes token 256 + n. */
  readonly merges: readonly (readonly [left: number, right: number])[];
};

export type TrainMergesOptions = {
  /** Most tokens, the 256 bytes included; fewer come out when no pair is frequent enough. */
  readonly maxTokens: number;
  /** A pair must stand in the text so often. Default 2. */
  readonly minFrequency?: number;
};

type Piece = { ids: number[]; readonly count: number };

/**
 * Learns merges from pieces of text and how often each occurs. Ties go to the pair with the lower ids, so the same pieces
 * give the same merges, in whatever order they come.
 */
export function trainMerges(pieceCounts: ReadonlyMap<string, number>, options: TrainMergesOptions): TrainedMerges {
  const { maxTokens, minFrequency = 2 } = options;
  const encoder = new TextEncoder();
  const pieces: Piece[] = Array.from(pieceCounts, ([text, count]) => ({ ids: [...encoder.encode(text)], count }));
  const tokens = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte));
  const merges: [number, number][] = [];
  const table = new PairTable();
  for (const piece of pieces) table.add(piece, 1);
  while (tokens.length < maxTokens) {
    const best = table.best();
    if (best === null || best.count < minFrequency) break;
    const { left, right } = best;
    const id = tokens.length;
    tokens.push(Uint8Array.of(...tokens[left]!, ...tokens[right]!));
    merges.push([left, right]);
    for (const piece of table.piecesWith(left, right)) {
      table.add(piece, -1);
      piece.ids = mergeIn(piece.ids, left, right, id);
      table.add(piece, 1);
    }
  }
  return { tokens, merges };
}

function mergeIn(ids: readonly number[], left: number, right: number, merged: number): number[] {
  const result: number[] = [];
  for (let index = 0; index < ids.length; index++) {
    const isPair = ids[index] === left && ids[index + 1] === right;
    result.push(isPair ? merged : ids[index]!);
    if (isPair) index += 1;
  }
  return result;
}

type Pair = { readonly left: number; readonly right: number; count: number; readonly pieces: Set<Piece> };

/** How often each pair stands in the text, and in which pieces. */
class PairTable {
  readonly #pairs = new Map<number, Pair>();

  /** Counts the pairs of a piece in, or out (`sign` -1). */
  add(piece: Piece, sign: 1 | -1): void {
    const { ids, count } = piece;
    for (let index = 0; index + 1 < ids.length; index++) {
      const pair = this.#pair(ids[index]!, ids[index + 1]!);
      pair.count += sign * count;
      if (sign === 1) pair.pieces.add(piece);
      else pair.pieces.delete(piece);
    }
  }

  best(): Pair | null {
    let best: Pair | null = null;
    for (const pair of this.#pairs.values()) {
      if (best === null || pair.count > best.count || (pair.count === best.count && isBefore(pair, best))) best = pair;
    }
    return best;
  }

  piecesWith(left: number, right: number): readonly Piece[] {
    return [...this.#pair(left, right).pieces];
  }

  #pair(left: number, right: number): Pair {
    const key = left * 2 ** 24 + right;
    let pair = this.#pairs.get(key);
    if (pair === undefined) {
      pair = { left, right, count: 0, pieces: new Set() };
      this.#pairs.set(key, pair);
    }
    return pair;
  }
}

function isBefore(a: Pair, b: Pair): boolean {
  return a.left < b.left || (a.left === b.left && a.right < b.right);
}
