// What text encodes to, remembered. Words, because a conversation repeats them. And long stretches between added tokens: every
// episode of a run begins with the same guidelines and tools, and encoding those costs more than all its turns.

/** Lengths of words that are remembered, in UTF-16 units. Longer pieces hardly repeat. */
export const maxWordLength = 64;
/** Words per generation. Measured: 5.9 MB of tasks, calls and results of τ-bench retail have 3,600 different ones. */
export const wordGeneration = 16_384;
/** Shorter stretches are cheap, and hardly any is seen twice; longer texts are documents, not prompts. */
export const sectionLengths = { min: 512, max: 262_144 };
/** Guidelines and tools of a dozen environments, and what passes by between them. */
export const sectionGeneration = 64;

/** V8 keeps the whole text alive behind a substring of this length or more. */
const sharedSubstring = 13;

/**
 * What was used recently, bounded by two generations: a full young one becomes the old one, and what is used again moves back,
 * which costs one lookup where an exact LRU costs a list.
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
    const isShared = text.length >= sharedSubstring && text.length <= maxWordLength;
    this.#young.set(isShared ? copyOf(text) : text, value);
  }
}

/** The same text as a string of its own. */
function copyOf(text: string): string {
  return String.fromCharCode(...Array.from({ length: text.length }, (_, index) => text.charCodeAt(index)));
}
