// What long stretches between added tokens encode to, remembered: every episode of a run begins with the same guidelines and
// tools, and encoding those costs more than all its turns. Words are remembered elsewhere (`word-cache.ts`).

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

  /** Remembers the ids from `start` to `end`; forgets what was used least lately. */
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
