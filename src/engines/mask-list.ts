// The kept ids of a call in this process, collected token by token.

import type { GenerationParams } from "./token-sampling.ts";

/** Kept ids of the tokens of one call in the form of `samplingMask`; `null` if none are kept. */
export class MaskList {
  readonly #numbers: number[] = [];

  /** Takes the kept ids of the next token. */
  add(kept: readonly number[] | null): void {
    if (kept === null) return;
    this.#numbers.push(kept.length);
    // An index loop, because a call has a bounded number of arguments.
    for (let at = 0; at < kept.length; at++) this.#numbers.push(kept[at]!);
  }

  result({ keepsMask = false }: Pick<GenerationParams, "keepsMask">): Uint32Array | null {
    return keepsMask ? Uint32Array.from(this.#numbers) : null;
  }
}
