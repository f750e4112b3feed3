// Which weights sampled which tokens of a reply, as servers report it.

/** Places of sampled tokens from `start` up to `end`. */
export type VersionSpan = { readonly version: string; readonly start: number; readonly end: number };

/** Spans in order and without gaps; a new one begins where the version changes. */
export class VersionSpans {
  #spans: VersionSpan[] = [];

  get spans(): readonly VersionSpan[] {
    return this.#spans;
  }

  /** The tokens so far without a version, up to `end`, are of this one. */
  extend(version: string, end: number): void {
    const last = this.#spans.at(-1);
    const start = last?.end ?? 0;
    if (end <= start) return;
    if (last?.version === version) this.#spans[this.#spans.length - 1] = { ...last, end };
    else this.#spans.push({ version, start, end });
  }

  /** All `end` tokens are of this version, whatever was said before. */
  replace(version: string, end: number): void {
    this.#spans = [];
    this.extend(version, end);
  }
}
