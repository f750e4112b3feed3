// Token ids that only grow. The identity of a buffer lets an engine keep the serialized form of the
// tokens that it has already sent, so that a turn costs its new tokens and not its whole context.
// Not a record: see `turn.ts`.

import { copyIds, joinIds } from "../lib/bytes.ts";

const none = new Uint32Array(0);

/**
 * Append-only token ids. Tokens that were read never change; `fork` starts another history. Keeps
 * appended arrays without a copy, so that a record of the same ids costs nothing: do not write to a
 * `Uint32Array` that was appended.
 */
export class TokenBuffer {
  /** One for each call of `append`. */
  readonly #parts: Uint32Array[] = [];
  #length = 0;
  #whenClosed: (() => void)[] | null = [];

  static from(ids: ArrayLike<number>): TokenBuffer {
    const buffer = new TokenBuffer();
    buffer.append(ids);
    return buffer;
  }

  get length(): number {
    return this.#length;
  }

  append(ids: ArrayLike<number>): void {
    if (ids.length === 0) return;
    this.#parts.push(ids instanceof Uint32Array ? ids : copyIds(ids));
    this.#length += ids.length;
  }

  /**
   * The current ids, copied only where they come from several appends. Do not write to the result;
   * it does not show later appends.
   */
  view(start = 0, end: number = this.#length): Uint32Array {
    const parts = this.parts(start, end);
    return parts.length <= 1 ? (parts[0] ?? none) : joinIds(parts);
  }

  /** A new buffer that begins with the first `length` ids of this one. */
  fork(length: number): TokenBuffer {
    const fork = new TokenBuffer();
    for (const part of this.parts(0, length)) fork.append(part);
    return fork;
  }

  /**
   * States that no further ids will be requested: data that engines keep for the buffer (the body
   * of the last request) is released. The ids stay readable. Close buffers when there are many; the
   * data of one that is never closed is released together with it.
   */
  close(): void {
    const callbacks = this.#whenClosed ?? [];
    this.#whenClosed = null;
    for (const callback of callbacks) callback();
  }

  /** Calls back once the buffer is closed; never when it was closed before. */
  whenClosed(callback: () => void): void {
    this.#whenClosed?.push(callback);
  }

  /** The ids of {@link view}, in the pieces that were appended: never a copy. */
  parts(start = 0, requestedEnd: number = this.#length): readonly Uint32Array[] {
    const end = Math.min(requestedEnd, this.#length);
    // Searches from the last part backwards, because callers mostly request new ids.
    const found: Uint32Array[] = [];
    let partEnd = this.#length;
    for (let index = this.#parts.length - 1; index >= 0 && partEnd > start; index--) {
      const part = this.#parts[index]!;
      const partStart = partEnd - part.length;
      if (partStart < end) {
        const [from, to] = [Math.max(0, start - partStart), Math.min(part.length, end - partStart)];
        found.push(from === 0 && to === part.length ? part : part.subarray(from, to));
      }
      partEnd = partStart;
    }
    return found.reverse();
  }
}
