// What text encodes to, remembered. Words, because a conversation repeats them: bounded by two generations (a full young one
// becomes the old one, and what is used again moves back), which costs one lookup where an exact LRU costs a list. And long
// stretches between added tokens: every episode of a run begins with the same guidelines and tools, and encoding those costs
// more than all its turns.

/** In UTF-16 units. Shorter stretches are cheap, and hardly any is seen twice. */
const shortest = 512;
/** Longer texts are documents, not prompts. */
const longest = 262_144;
/** Guidelines and tools of a dozen environments, and what passes by between them. */
const capacity = 64;

export class SectionCache {
  /** In the order of their last use. */
  readonly #sections = new Map<string, Uint32Array>();

  get(text: string): Uint32Array | undefined {
    if (text.length < shortest || text.length > longest) return undefined;
    const ids = this.#sections.get(text);
    if (ids !== undefined) {
      this.#sections.delete(text);
      this.#sections.set(text, ids);
    }
    return ids;
  }

  /** Remembers the ids from `start` to `end`; forgets what was used least recently. */
  set(text: string, ids: Uint32Array, start: number, end: number): void {
    if (text.length < shortest || text.length > longest) return;
    if (this.#sections.size >= capacity) {
      for (const oldest of this.#sections.keys()) {
        this.#sections.delete(oldest);
        break;
      }
    }
    this.#sections.set(text, ids.slice(start, end));
  }
}

/** Pieces per generation. Measured: 5.9 MB of tasks, calls and results of τ-bench retail have 3,600 different ones. */
const generationSize = 16_384;
/** In UTF-16 units. Longer pieces hardly repeat. */
const longestPiece = 64;
/** V8 keeps the whole text alive behind a substring of this length or more. */
const sharedSubstring = 13;

export class WordCache {
  #young = new Map<string, number | readonly number[]>();
  #old = new Map<string, number | readonly number[]>();

  /** The ids of a piece, a bare number when it is one id; `undefined` when it is not remembered. */
  get(piece: string): number | readonly number[] | undefined {
    const ids = this.#young.get(piece);
    if (ids !== undefined) return ids;
    const older = this.#old.get(piece);
    if (older !== undefined) this.#insert(piece, older);
    return older;
  }

  /** Remembers the ids from `start` to `end`. */
  set(piece: string, ids: Uint32Array, start: number, end: number): void {
    if (piece.length > longestPiece) return;
    this.#insert(piece, end === start + 1 ? (ids[start] ?? 0) : Array.from(ids.subarray(start, end)));
  }

  #insert(piece: string, ids: number | readonly number[]): void {
    if (this.#young.size >= generationSize) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(piece.length < sharedSubstring ? piece : copyOf(piece), ids);
  }
}

/** The same text as a string of its own. */
function copyOf(piece: string): string {
  return String.fromCharCode(...Array.from({ length: piece.length }, (_, index) => piece.charCodeAt(index)));
}
