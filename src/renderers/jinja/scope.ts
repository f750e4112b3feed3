// Resolves names to variables, once, when a template is compiled, by the rules of Jinja's own
// compiler: a body has its own variables, starts with those around it, and its assignments are gone
// when it ends. Slots instead of lookups by name.
//
// Following those rules to the letter matters where they surprise: a name that is assigned anywhere
// in a body is a variable of that body from its start, and a name that only branches assign may
// come from the caller's variables.

import {
  itemsOf,
  Namespace,
  PythonError,
  type PythonValue,
  Undefined,
  valueError,
} from "../../python-semantics/index.ts";
import type { Evaluate, Frame } from "./run.ts";

/** The variables of one run of the template or of one of its macros, numbered. */
export class Layout {
  readonly parent: Layout | null;
  /** Names that the template takes from its caller. All layouts of a template share them. */
  readonly given: Set<string>;
  size = 0;

  constructor(parent: Layout | null) {
    this.parent = parent;
    this.given = parent?.given ?? new Set();
  }
}

type Slot = { readonly layout: Layout; readonly index: number };

/**
 * Initial value of a variable when its body begins: the value it is given ("parameter"), the one
 * that the caller of the template gave under this name ("resolve"), the value of another variable,
 * or none.
 */
type Load = "parameter" | "resolve" | "undefined" | Slot;

export class Symbols {
  readonly layout: Layout;
  readonly #parent: Symbols | null;
  /** Slots shared between the copies for branches: one slot for one name of a body. */
  #slots = new Map<string, Slot>();
  #names = new Map<string, Slot>();
  #loads = new Map<Slot, { readonly name: string; readonly load: Load }>();
  #stores = new Set<string>();

  constructor(parent: Symbols | null, layout: Layout) {
    this.#parent = parent;
    this.layout = layout;
  }

  #find(name: string): Slot | null {
    return this.#names.get(name) ?? this.#findOutside(name);
  }

  #findOutside(name: string): Slot | null {
    return this.#parent === null ? null : this.#parent.#find(name);
  }

  load(names: Iterable<string>): void {
    for (const name of names) if (this.#find(name) === null) this.#define(name, "resolve");
  }

  store(name: string): void {
    this.#stores.add(name);
    if (!this.#names.has(name)) this.#define(name, this.#findOutside(name) ?? "undefined");
  }

  declare(name: string): void {
    this.#stores.add(name);
    this.#define(name, "parameter");
  }

  /**
   * Analyzes branches, each from the current state. Names that only they assign start with the
   * outer values.
   */
  branch(analyses: readonly ((symbols: Symbols) => void)[]): void {
    const branches = analyses.map((analyze) => {
      const copy = new Symbols(this.#parent, this.layout);
      copy.#slots = this.#slots;
      copy.#names = new Map(this.#names);
      copy.#loads = new Map(this.#loads);
      copy.#stores = new Set(this.#stores);
      analyze(copy);
      return copy;
    });
    const assigned = branches.flatMap((copy) => [...copy.#stores]).filter((name) => !this.#stores.has(name));
    for (const copy of branches) {
      this.#names = new Map([...this.#names, ...copy.#names]);
      this.#loads = new Map([...this.#loads, ...copy.#loads]);
      this.#stores = new Set([...this.#stores, ...copy.#stores]);
    }
    for (const name of assigned) {
      const load = this.#findOutside(name) ?? "resolve";
      if (load === "resolve") this.layout.given.add(name);
      this.#loads.set(this.#names.get(name)!, { name, load });
    }
  }

  #define(name: string, load: Load): void {
    const slot = this.#slots.get(name) ?? { layout: this.layout, index: this.layout.size++ };
    this.#slots.set(name, slot);
    this.#names.set(name, slot);
    if (load === "resolve") this.layout.given.add(name);
    this.#loads.set(slot, { name, load });
  }

  #slotOf(name: string): Slot {
    const slot = this.#find(name);
    if (slot !== null) return slot;
    throw new Error(`The name "${name}" was not analyzed before it was compiled.`);
  }

  /** The slot of a variable of the body itself, for assigning to. */
  ownSlot(name: string): number {
    return this.#slotOf(name).index;
  }

  /**
   * Reads a variable by name; one that is not set is undefined, and its use raises an error with
   * its name.
   */
  compileName(name: string): Evaluate {
    const missing = new Undefined(`"${name}" is undefined`);
    const read = this.#compileSlot(this.#slotOf(name));
    return (frame) => {
      const value = read(frame);
      return value === undefined ? missing : value;
    };
  }

  /** Sets the variables of the body to their initial values. */
  compileEntry(): (frame: Frame) => void {
    const entries = Array.from(this.#loads, ([{ index }, { name, load }]) => {
      if (load === "parameter") return null;
      if (load === "undefined") return (frame: Frame) => void (frame.slots[index] = undefined);
      if (load === "resolve") return (frame: Frame) => void (frame.slots[index] = frame.run.variables.get(name));
      const read = this.#compileSlot(load);
      return (frame: Frame) => void (frame.slots[index] = read(frame));
    }).filter((entry) => entry !== null);
    return (frame) => {
      for (const enter of entries) enter(frame);
    };
  }

  /** Reads a slot; `undefined` if it is not set. */
  #compileSlot({ layout: home, index }: Slot): (frame: Frame) => PythonValue | undefined {
    let depth = 0;
    for (let { layout } = this as Symbols; layout !== home; layout = layout.parent!) depth++;
    if (depth === 0) return (frame) => frame.slots[index];
    return (frame) => {
      let at = frame;
      for (let hops = depth; hops > 0; hops--) at = at.parent!;
      return at.slots[index];
    };
  }
}

/** The surroundings in which a part of a template is compiled. */
export type Scope = {
  readonly symbols: Symbols;
  /** True in a branch, where an unknown filter is an error only when it is reached. */
  readonly isSoft: boolean;
  readonly isInLoop: boolean;
};

type Assign = (frame: Frame, value: PythonValue) => void;

/** Target of an assignment. */
export type Target = {
  /** Records the assigned names; as parameters, the variables of a loop's or macro's body. */
  readonly analyze: (symbols: Symbols, isParameter: boolean) => void;
  readonly compile: (scope: Scope) => Assign;
  /** Checks, before the value is computed, that the namespaces it names exist. */
  readonly compileCheck: (scope: Scope) => (frame: Frame) => void;
};

export function nameTarget(name: string): Target {
  return {
    analyze: (symbols, isParameter) => (isParameter ? symbols.declare(name) : symbols.store(name)),
    compile: ({ symbols }) => {
      const slot = symbols.ownSlot(name);
      return (frame, value) => {
        frame.slots[slot] = value;
      };
    },
    compileCheck: () => () => {},
  };
}

/** `namespace.attribute` */
export function namespaceTarget(name: string, attribute: string): Target {
  const compileNamespace = ({ symbols }: Scope): ((frame: Frame) => Namespace) => {
    const read = symbols.compileName(name);
    return (frame) => {
      const namespace = read(frame);
      if (namespace instanceof Namespace) return namespace;
      throw new PythonError("TemplateRuntimeError", "an attribute is assigned to something that is not a namespace");
    };
  };
  return {
    analyze: (symbols) => symbols.load([name]),
    compile: (scope) => {
      const namespace = compileNamespace(scope);
      return (frame, value) => void namespace(frame).attributes.set(attribute, value);
    },
    compileCheck: compileNamespace,
  };
}

export function tupleTarget(items: readonly Target[]): Target {
  return {
    analyze: (symbols, isParameter) => items.forEach((item) => item.analyze(symbols, isParameter)),
    compile: (scope) => {
      const assigns = items.map((item) => item.compile(scope));
      return (frame, value) => {
        const values = itemsOf(value);
        if (values.length !== assigns.length)
          throw valueError(`${values.length} values are unpacked into ${assigns.length} names`);
        assigns.forEach((assign, index) => assign(frame, values[index]!));
      };
    },
    compileCheck: (scope) => {
      const checks = items.map((item) => item.compileCheck(scope));
      return (frame) => checks.forEach((check) => check(frame));
    },
  };
}
