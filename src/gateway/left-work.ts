// Work whose client was asked to retry because the disk was full, kept for that client. Independent
// of sessions and the disk.

/** Finished work without a client, by its request: the next equal request gets it. */
export class LeftWork<T> {
  readonly #left = new Map<string, Promise<T>[]>();

  /** The oldest work of an equal request; `null` if there is none. */
  take(request: object): Promise<T> | null {
    const name = JSON.stringify(request);
    const [first = null, ...rest] = this.#left.get(name) ?? [];
    this.#set(name, rest);
    return first;
  }

  keep(request: object, work: Promise<T>): void {
    const name = JSON.stringify(request);
    this.#set(name, [...(this.#left.get(name) ?? []), work]);
    // Work that has failed is started again.
    work.catch(() =>
      this.#set(
        name,
        (this.#left.get(name) ?? []).filter((one) => one !== work),
      ),
    );
  }

  #set(name: string, works: Promise<T>[]): void {
    if (works.length === 0) this.#left.delete(name);
    else this.#left.set(name, works);
  }
}
