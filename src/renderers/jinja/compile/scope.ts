// What the compiler knows where it stands, and how it reaches variables from there.

import type { Statement } from "../nodes.ts";
import { Undefined, type Value } from "../values/value.ts";
import type { Evaluate, Execute, Frame } from "./run.ts";
import { type Slot, Symbols } from "./symbols.ts";

export type Scope = {
  readonly symbols: Symbols;
  /** In a branch of an `if` an unknown filter is an error only when it is reached. */
  readonly isSoft: boolean;
  readonly isInLoop: boolean;
  /** Compiles statements that stand directly in a scope. */
  readonly compileBody: (statements: readonly Statement[], scope: Scope) => Execute;
};

/** A body with variables of its own, within the same run of the template or macro. */
export function innerScope(scope: Scope, changes: Partial<Pick<Scope, "isInLoop">> = {}): Scope {
  return { ...scope, isSoft: false, symbols: new Symbols(scope.symbols, scope.symbols.layout), ...changes };
}

/** Sets the variables of a body to what they start with. */
export function compileEntry({ symbols }: Scope): (frame: Frame) => void {
  const entries: ((frame: Frame) => void)[] = [];
  for (const [{ index }, load] of symbols.loads) {
    if (load.type === "resolve") {
      const { name } = load;
      entries.push((frame) => (frame.slots[index] = frame.run.variables.get(name)));
    } else if (load.type === "alias") {
      const read = compileSlot(symbols, load.slot);
      entries.push((frame) => (frame.slots[index] = read(frame)));
    } else if (load.type === "undefined") {
      entries.push((frame) => (frame.slots[index] = undefined));
    }
  }
  return (frame) => {
    for (const enter of entries) enter(frame);
  };
}

/** Reads a variable by name; one that is not set is undefined, and says its name when it is used. */
export function compileName(scope: Scope, name: string): Evaluate {
  const missing = new Undefined(`"${name}" is undefined`);
  const read = compileSlot(scope.symbols, slotOf(scope, name));
  return (frame) => {
    const value = read(frame);
    return value === undefined ? missing : value;
  };
}

/** A variable of the body itself, for assigning to. */
export function ownSlot(scope: Scope, name: string): number {
  return slotOf(scope, name).index;
}

/** `undefined` where it is not set. */
export function compileSlot(symbols: Symbols, slot: Slot): (frame: Frame) => Value | undefined {
  const { index } = slot;
  let depth = 0;
  for (let { layout } = symbols; layout !== slot.layout; layout = layout.parent!) depth++;
  if (depth === 0) return (frame) => frame.slots[index];
  return (frame) => {
    let at = frame;
    for (let hops = depth; hops > 0; hops--) at = at.parent!;
    return at.slots[index];
  };
}

function slotOf(scope: Scope, name: string): Slot {
  const slot = scope.symbols.find(name);
  if (slot !== null) return slot;
  throw new Error(`The name "${name}" was not analyzed before it was compiled.`);
}
