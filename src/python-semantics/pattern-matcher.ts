// Runs a small backtracking pattern over text in time linear in the text: no place is tried twice in the same state. For
// patterns whose backtracking would otherwise explode, where the order in which a backtracking engine tries things decides
// what is matched.

/** `class`: one character. `split`: try the first branch, then the second. `jump`: go on elsewhere. */
export type Instruction =
  | { readonly type: "class"; readonly test: (code: number) => boolean; /** By code. */ readonly ascii: Uint8Array }
  | { readonly type: "split"; readonly first: number; readonly second: number }
  | { readonly type: "jump"; readonly to: number }
  | { readonly type: "match" };

export type Pattern = {
  readonly program: readonly Instruction[];
  /** One per instruction: a place whose character cannot begin it need not be tried, which spares most of the tries. */
  readonly beginnings: readonly Uint8Array[];
};

/** The first match, leftmost start first, as `[start, end)` in UTF-16 units; `null` when there is none. */
export function findPattern(text: string, pattern: Pattern): readonly [start: number, end: number] | null {
  const tried = new Uint8Array(Math.ceil((pattern.program.length * (text.length + 1)) / 8));
  for (let start = 0; start <= text.length; start++) {
    if (!mayBegin(pattern.beginnings[0]!, text.charCodeAt(start))) continue;
    const end = matchAt(text, pattern, start, tried);
    if (end !== -1) return [start, end];
  }
  return null;
}

function mayBegin(beginnings: Uint8Array, unit: number): boolean {
  return !(unit < 128) || beginnings[unit] === 1;
}

function matchAt(text: string, { program, beginnings }: Pattern, start: number, tried: Uint8Array): number {
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
        const unit = text.charCodeAt(at);
        const isSecond = mayBegin(beginnings[instruction.second]!, unit);
        if (mayBegin(beginnings[instruction.first]!, unit)) {
          if (isSecond) pending.push(instruction.second, at);
          counter = instruction.first;
        } else if (isSecond) counter = instruction.second;
        else break;
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

export function compile(piece: Piece): Pattern {
  const program: readonly Instruction[] = [...piece(0), { type: "match" }];
  return { program, beginnings: program.map((_, counter) => beginningsOf(program, counter)) };
}

/** Which ASCII characters an instruction can begin with, by code; others, and the end of the text, always may. */
function beginningsOf(program: readonly Instruction[], start: number): Uint8Array {
  const result = new Uint8Array(128);
  const seen = new Set<number>();
  const pending = [start];
  for (let counter = pending.pop(); counter !== undefined; counter = pending.pop()) {
    if (seen.has(counter)) continue;
    seen.add(counter);
    const instruction = program[counter]!;
    if (instruction.type === "match") return result.fill(1);
    if (instruction.type === "split") pending.push(instruction.first, instruction.second);
    else if (instruction.type === "jump") pending.push(instruction.to);
    else for (let code = 0; code < 128; code++) result[code]! |= instruction.ascii[code]!;
  }
  return result;
}
