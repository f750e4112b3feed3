// What a gateway remembers of sessions that have ended: whose key it was, so that clients that come late are told so. Only of the latest:
// a gateway runs for weeks. The sessions themselves are in the store.

/** Two megabytes of hashes and ids. */
const mostRemembered = 10_000;

export class EndedSessions {
  readonly #most: number;
  /** Ids by the hashes of their keys, the latest last. */
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

  /** `null`: it has not ended, or long ago. */
  find(keyHash: string): string | null {
    return this.#ids.get(keyHash) ?? null;
  }
}
