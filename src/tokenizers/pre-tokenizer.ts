// Cuts text into the pieces inside which merges happen: one or several steps, each a pattern that isolates or removes its
// matches. What a piece looks like is decided by `split-pattern.ts`; what becomes of it by `byte-level-bpe.ts`.

/** One cut. The pattern is sticky. */
export type SplitStep = {
  readonly pattern: RegExp;
  /** What becomes pieces: matches and the text between them, or one of the two. */
  readonly keep: "both" | "matches" | "gaps";
};

/** Calls `take` with each piece in order. The pieces of one text are never empty. */
export function splitText(text: string, steps: readonly SplitStep[], take: (piece: string) => void): void {
  applyStep(text, steps, 0, take);
}

function applyStep(text: string, steps: readonly SplitStep[], index: number, take: (piece: string) => void): void {
  const step = steps[index];
  if (step === undefined) {
    if (text !== "") take(text);
    return;
  }
  const last = index + 1 === steps.length;
  const pass = last ? take : (piece: string): void => applyStep(piece, steps, index + 1, take);
  const { pattern, keep } = step;
  const length = text.length;
  let gapStart = 0;
  let at = 0;
  while (at < length) {
    pattern.lastIndex = at;
    if (!pattern.test(text)) {
      at += characterLength(text, at);
      continue;
    }
    // The pattern may have been used by `pass`; its end is read before that.
    const end = pattern.lastIndex;
    if (gapStart < at && keep !== "matches") pass(text.slice(gapStart, at));
    if (end > at && keep !== "gaps") pass(text.slice(at, end));
    gapStart = end;
    // An empty match is a boundary and nothing more.
    at = end > at ? end : at + characterLength(text, at);
  }
  if (gapStart < length && keep !== "matches") pass(text.slice(gapStart));
}

function characterLength(text: string, at: number): number {
  return (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
}
