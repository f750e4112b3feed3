// A cache from strings to results, bounded in size.

/** Length from which V8 stores a substring as a slice that keeps the whole text alive. */
const sharedSubstring = 13;

/** Longer strings are kept as given, without a copy. */
export const longestCopied = 64;

/**
 * Cache of recently used values, bounded by two generations: a full young one becomes the old one,
 * and an old value that is used again moves back, which costs one lookup where an exact LRU costs a
 * list.
 */
export class RecentStrings<Value> {
  #young = new Map<string, Value>();
  #old = new Map<string, Value>();
  readonly #generationSize: number;

  constructor(generationSize: number) {
    this.#generationSize = generationSize;
  }

  get(text: string): Value | undefined {
    const value = this.#young.get(text);
    if (value !== undefined) return value;
    const older = this.#old.get(text);
    if (older !== undefined) this.set(text, older);
    return older;
  }

  set(text: string, value: Value): void {
    if (this.#young.size >= this.#generationSize) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    const isShared = text.length >= sharedSubstring && text.length <= longestCopied;
    this.#young.set(isShared ? copyOf(text) : text, value);
  }
}

/** A copy of the text that shares no memory with a longer one. */
function copyOf(text: string): string {
  return String.fromCharCode(...Array.from({ length: text.length }, (_, index) => text.charCodeAt(index)));
}
