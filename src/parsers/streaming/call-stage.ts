// Finds calls in a stream of text where a call may be complete. Each look reads the text from its beginning, so looks become
// rarer as the text grows: together they cost a few times one reading, and what is missed comes at the end.

import { beginningOfOne } from "./words-stage.ts";

/** The next look waits until the text is this much longer; 1.25 bounds all looks by five readings of the text. */
const growth = 1.25;

export class CallStage<Call> {
  readonly #ends: readonly string[];
  readonly #read: (text: string) => readonly Call[];
  readonly #pieces: string[] = [];
  #length = 0;
  #tail = "";
  #lastLook = 0;
  #count = 0;

  /** `read` gives the calls of a text; `ends` are what may complete one. */
  constructor(ends: readonly string[], read: (text: string) => readonly Call[]) {
    this.#ends = ends;
    this.#read = read;
  }

  /** The calls that were not known before `piece` came. */
  push(piece: string): readonly Call[] {
    if (this.#ends.length === 0 || piece === "") return [];
    this.#pieces.push(piece);
    this.#length += piece.length;
    const window = this.#tail + piece;
    const offset = this.#length - window.length;
    const found: Call[] = [];
    for (const end of endsIn(window, this.#ends)) {
      if (offset + end < this.#lastLook * growth) continue;
      this.#lastLook = offset + end;
      const text = this.#pieces.join("");
      this.#pieces.splice(0, this.#pieces.length, text);
      const calls = this.#read(text.slice(0, this.#lastLook));
      for (const call of calls.slice(this.#count)) found.push(call);
      this.#count = Math.max(this.#count, calls.length);
    }
    const length = beginningOfOne(window, window.length, this.#ends);
    this.#tail = window.slice(window.length - length);
    return found;
  }
}

/** Where markers end in a text, in order. */
function endsIn(text: string, markers: readonly string[]): readonly number[] {
  const ends: number[] = [];
  for (const marker of markers) {
    for (let at = text.indexOf(marker); at !== -1; at = text.indexOf(marker, at + 1)) ends.push(at + marker.length);
  }
  return ends.sort((left, right) => left - right);
}
