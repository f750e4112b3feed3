// Token ids that only ever grow. The identity of a buffer lets an engine keep the serialized form of what it has
// already sent, so that a turn costs its new tokens and not its whole context. Not a record: see `turn.ts`.

/** Append-only token ids. What was read up to some length never changes; `fork` starts another history. */
export class TokenBuffer {
  #ids: Uint32Array;
  #length = 0;

  constructor(capacity = 256) {
    this.#ids = new Uint32Array(Math.max(1, capacity));
  }

  static from(ids: ArrayLike<number>): TokenBuffer {
    const buffer = new TokenBuffer(ids.length);
    buffer.append(ids);
    return buffer;
  }

  get length(): number {
    return this.#length;
  }

  append(ids: ArrayLike<number>): void {
    const wanted = this.#length + ids.length;
    if (wanted > this.#ids.length) {
      const grown = new Uint32Array(Math.max(wanted, this.#ids.length * 2));
      grown.set(this.#ids.subarray(0, this.#length));
      this.#ids = grown;
    }
    this.#ids.set(ids, this.#length);
    this.#length = wanted;
  }

  /** The ids as they are now, without a copy. Do not write to it; later appends do not show in it. */
  view(start = 0, end: number = this.#length): Uint32Array {
    return this.#ids.subarray(start, Math.min(end, this.#length));
  }

  /** A new buffer that begins with the first `length` ids of this one. */
  fork(length: number): TokenBuffer {
    return TokenBuffer.from(this.view(0, length));
  }
}
