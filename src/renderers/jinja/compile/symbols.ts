// Which variable a name means, decided once when a template is compiled, by the rules of Jinja's own compiler: a body has its
// own variables, starts with those around it, and what it assigns is gone when it ends. Slots instead of lookups by name.
//
// Following those rules to the letter matters where they surprise: a name that is assigned anywhere in a body is a variable
// of that body from its start, and a name that only branches assign may come from the caller's variables.

/** The variables of one run of the template or of one of its macros, numbered. */
export class Layout {
  readonly parent: Layout | null;
  size = 0;

  constructor(parent: Layout | null) {
    this.parent = parent;
  }
}

export type Slot = { readonly layout: Layout; readonly index: number };

/** What a variable holds when its body begins. */
export type Load =
  | { readonly type: "parameter" }
  /** What the caller of the template gave under this name. */
  | { readonly type: "resolve"; readonly name: string }
  | { readonly type: "alias"; readonly slot: Slot }
  | { readonly type: "undefined" };

export class Symbols {
  readonly parent: Symbols | null;
  readonly layout: Layout;
  /** Shared between the copies for branches: one slot for one name of a body. */
  readonly #slots: Map<string, Slot>;
  readonly #names: Map<string, Slot>;
  readonly #loads: Map<Slot, Load>;
  readonly #stores: Set<string>;

  constructor(parent: Symbols | null, layout: Layout, copied: Symbols | null = null) {
    this.parent = parent;
    this.layout = layout;
    this.#slots = copied === null ? new Map<string, Slot>() : copied.#slots;
    this.#names = new Map(copied === null ? [] : copied.#names);
    this.#loads = new Map(copied === null ? [] : copied.#loads);
    this.#stores = new Set(copied === null ? [] : copied.#stores);
  }

  /** What each variable of this body starts with. */
  get loads(): ReadonlyMap<Slot, Load> {
    return this.#loads;
  }

  find(name: string): Slot | null {
    return this.#names.get(name) ?? this.parent?.find(name) ?? null;
  }

  load(name: string): void {
    if (this.find(name) === null) this.#define(name, { type: "resolve", name });
  }

  store(name: string): void {
    this.#stores.add(name);
    if (this.#names.has(name)) return;
    const outer = this.parent?.find(name) ?? null;
    this.#define(name, outer === null ? { type: "undefined" } : { type: "alias", slot: outer });
  }

  declare(name: string): Slot {
    this.#stores.add(name);
    return this.#define(name, { type: "parameter" });
  }

  copy(): Symbols {
    return new Symbols(this.parent, this.layout, this);
  }

  /** Takes over what branches did. What only they assigned starts with what lies around. */
  merge(branches: readonly Symbols[]): void {
    const assigned = new Set(
      branches.flatMap((branch) => [...branch.#stores]).filter((name) => !this.#stores.has(name)),
    );
    for (const branch of branches) {
      for (const [name, slot] of branch.#names) this.#names.set(name, slot);
      for (const [slot, load] of branch.#loads) this.#loads.set(slot, load);
      for (const name of branch.#stores) this.#stores.add(name);
    }
    for (const name of assigned) {
      const outer = this.parent?.find(name) ?? null;
      const load: Load = outer === null ? { type: "resolve", name } : { type: "alias", slot: outer };
      this.#loads.set(this.#names.get(name)!, load);
    }
  }

  #define(name: string, load: Load): Slot {
    let slot = this.#slots.get(name);
    if (slot === undefined) {
      slot = { layout: this.layout, index: this.layout.size++ };
      this.#slots.set(name, slot);
    }
    this.#names.set(name, slot);
    this.#loads.set(slot, load);
    return slot;
  }
}
