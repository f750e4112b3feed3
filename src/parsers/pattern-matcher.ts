// Runs a small backtracking pattern over text in linear time: no position is tried twice in the
// same state. For patterns whose backtracking would otherwise explode, where the order in which a
// backtracking engine tries alternatives decides the match.

/**
 * Takes one character and continues at `next`; without a test tries `next`, then `alternative`.
 * Without either: a match.
 */
type State = {
  readonly id: number;
  readonly test: ((code: number) => boolean) | null;
  next: State | null;
  readonly alternative: State | null;
};

/** A part of a pattern, given what follows it. */
export type Piece = (next: State, nextId: () => number) => State;

export type Pattern = { readonly start: State; readonly size: number };

export function compile(piece: Piece): Pattern {
  let size = 0;
  const nextId = (): number => size++;
  const start = piece({ id: nextId(), test: null, next: null, alternative: null }, nextId);
  return { start, size };
}

/** The first match, leftmost start first, as `[start, end)` in UTF-16 units; `null` if none. */
export function findPattern(text: string, pattern: Pattern): readonly [start: number, end: number] | null {
  const tried = new Uint8Array(Math.ceil((pattern.size * (text.length + 1)) / 8));
  for (let start = 0; start <= text.length; start++) {
    if (pattern.start.test?.(text.codePointAt(start) ?? 0) === false) continue;
    const end = matchAt(text, pattern, start, tried);
    if (end !== -1) return [start, end];
  }
  return null;
}

function matchAt(text: string, { start, size }: Pattern, from: number, tried: Uint8Array): number {
  // Two arrays instead of one of pairs: there may be as many entries as characters.
  const states: State[] = [start];
  const places: number[] = [from];
  while (states.length > 0) {
    let state = states.pop()!;
    let at = places.pop()!;
    for (;;) {
      const bit = at * size + state.id;
      if ((tried[bit >> 3]! & (1 << (bit & 7))) !== 0) break;
      tried[bit >> 3]! |= 1 << (bit & 7);
      if (state.next === null) return at;
      if (state.test !== null) {
        const code = text.codePointAt(at);
        if (code === undefined || !state.test(code)) break;
        at += code > 0xffff ? 2 : 1;
      } else if (state.alternative !== null) {
        states.push(state.alternative);
        places.push(at);
      }
      state = state.next;
    }
  }
  return -1;
}

export const one =
  (test: (code: number) => boolean): Piece =>
  (next, nextId) => ({ id: nextId(), test, next, alternative: null });

export const literal = (text: string): Piece =>
  sequence(...Array.from(text, (c) => one((code) => code === c.codePointAt(0))));

export const sequence =
  (...pieces: readonly Piece[]): Piece =>
  (next, nextId) =>
    pieces.reduceRight((following, piece) => piece(following, nextId), next);

/** `(piece)*`, as many as possible first; the piece must not match the empty string. */
export const many =
  (piece: Piece): Piece =>
  (next, nextId) => {
    const state: State = { id: nextId(), test: null, next: null, alternative: next };
    state.next = piece(state, nextId);
    return state;
  };

/** `(piece)?`, greedy. */
export const maybe =
  (piece: Piece): Piece =>
  (next, nextId) => ({ id: nextId(), test: null, next: piece(next, nextId), alternative: next });
