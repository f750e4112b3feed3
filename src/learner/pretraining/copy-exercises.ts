// The first thing a model learns here: to copy. Rows of nonsense in which segments come again, in another order and with
// other things between; what comes again is in the loss, apart from its first token, which nobody could foresee.

import type { Random } from "../../lib/random.ts";
import type { Dialogue } from "./dialogue.ts";

/** Ids of tokens by what can be copied in a conversation. */
export type CopyAlphabet = { readonly pairs: readonly number[]; readonly words: readonly number[] };

export function copyExercise(alphabet: CopyAlphabet, length: number, random: Random): Dialogue {
  const { pairs, words } = alphabet;
  const tokens: number[] = [];
  const targets: number[] = [];
  const anyWord = (): number => random.pick(words);
  while (tokens.length < length) {
    const segments = Array.from({ length: 2 + random.integer(5) }, () => [
      anyWord(),
      ...Array.from({ length: 2 + random.integer(6) }, () => (random.next() < 0.6 ? random.pick(pairs) : anyWord())),
    ]);
    tokens.push(...segments.flat());
    if (tokens.length > length * 0.9) break;
    for (let again = 1 + random.integer(segments.length); again > 0; again--) {
      for (let filler = random.integer(6); filler > 0; filler--) tokens.push(anyWord());
      const start = tokens.length;
      const segment = random.pick(segments);
      tokens.push(...segment);
      for (let place = start + 1; place < start + segment.length; place++) targets.push(place);
    }
  }
  return { tokens: Uint32Array.from(tokens), targets: Uint32Array.from(targets) };
}
