// Keys of ended sessions, so that clients that call late learn that their session has ended. Only
// the most recent ones are kept, because a gateway runs for weeks. The sessions themselves are in
// the store.

/** Maximum number of remembered keys: two megabytes of hashes and ids. */
const mostRemembered = 10_000;

export class EndedSessions {
  readonly #most: number;
  /** Session ids by the hashes of their keys, the latest last. */
  readonly #ids = new Map<string, string>();

  constructor(most = mostRemembered) {
    this.#most = most;
  }

  add(keyHash: string, id: string): void {
    this.#ids.delete(keyHash);
    this.#ids.set(keyHash, id);
    for (const oldest of this.#ids.keys()) {
      if (this.#ids.size <= this.#most) return;
      this.#ids.delete(oldest);
    }
  }

  /** Id of the ended session of a key; `null` if it has not ended, or ended long ago. */
  find(keyHash: string): string | null {
    return this.#ids.get(keyHash) ?? null;
  }
}
