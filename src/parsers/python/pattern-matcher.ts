// Runs a small backtracking pattern over text in time linear in the text: no place is tried twice in the same state. For
// patterns whose backtracking would otherwise explode, where the order in which a backtracking engine tries things decides
// what is matched.

/** `class`: one character. `split`: try the first branch, then the second. `jump`: go on elsewhere. */
export type Instruction =
  | { readonly type: "class"; readonly test: (code: number) => boolean; /** By code. */ readonly ascii: Uint8Array }
  | { readonly type: "split"; readonly first: number; readonly second: number }
  | { readonly type: "jump"; readonly to: number }
  | { readonly type: "match" };

/** The first match, leftmost start first, as `[start, end)` in UTF-16 units; `null` when there is none. */
export function findPattern(
  text: string,
  program: readonly Instruction[],
): readonly [start: number, end: number] | null {
  const tried = new Uint8Array(Math.ceil((program.length * (text.length + 1)) / 8));
  for (let start = 0; start <= text.length; start++) {
    const end = matchAt(text, program, start, tried);
    if (end !== -1) return [start, end];
  }
  return null;
}

function matchAt(text: string, program: readonly Instruction[], start: number, tried: Uint8Array): number {
  const pending: number[] = [0, start];
  while (pending.length > 0) {
    let at = pending.pop()!;
    let counter = pending.pop()!;
    for (;;) {
      const bit = at * program.length + counter;
      if ((tried[bit >> 3]! & (1 << (bit & 7))) !== 0) break;
      tried[bit >> 3]! |= 1 << (bit & 7);
      const instruction = program[counter]!;
      if (instruction.type === "match") return at;
      if (instruction.type === "split") {
        pending.push(instruction.second, at);
        counter = instruction.first;
      } else if (instruction.type === "jump") {
        counter = instruction.to;
      } else {
        const unit = text.charCodeAt(at);
        if (unit < 128) {
          if (instruction.ascii[unit] === 0) break;
          at++;
        } else {
          const code = text.codePointAt(at);
          if (code === undefined || !instruction.test(code)) break;
          at += code > 0xffff ? 2 : 1;
        }
        counter++;
      }
    }
  }
  return -1;
}

/** A piece of a pattern: instructions that begin at `base`. */
export type Piece = (base: number) => Instruction[];

export const one =
  (test: (code: number) => boolean): Piece =>
  () => [{ type: "class", test, ascii: Uint8Array.from({ length: 128 }, (_, code) => (test(code) ? 1 : 0)) }];

export const literal = (text: string): Piece =>
  sequence(...Array.from(text, (c) => one((code) => code === c.codePointAt(0))));

export function sequence(...pieces: readonly Piece[]): Piece {
  return (base) => {
    const program: Instruction[] = [];
    for (const piece of pieces) program.push(...piece(base + program.length));
    return program;
  };
}

/** `(piece)*`, as many as possible first; the piece must not match nothing. */
export function many(piece: Piece): Piece {
  return (base) => {
    const body = piece(base + 1);
    const end = base + body.length + 2;
    return [{ type: "split", first: base + 1, second: end }, ...body, { type: "jump", to: base }];
  };
}

/** `(piece)?`, one first. */
export function maybe(piece: Piece): Piece {
  return (base) => {
    const body = piece(base + 1);
    return [{ type: "split", first: base + 1, second: base + 1 + body.length }, ...body];
  };
}

export function compile(piece: Piece): readonly Instruction[] {
  return [...piece(0), { type: "match" }];
}
