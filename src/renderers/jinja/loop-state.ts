// The variable `loop`. It looks one item ahead only when asked, and counts an iterator's items only when asked for a length,
// as Jinja's does: a lazy filter may raise later than one would think.

import {
  Callable,
  type CallArguments,
  itemsOf,
  iteratorOf,
  orUndefined,
  pythonEquals,
  type PythonIterator,
  PythonObject,
  type PythonValue,
  sizedItems,
  typeError,
} from "../../python-semantics/index.ts";

export class LoopState extends PythonObject {
  readonly typeName = "LoopContext";
  readonly #depth0: number;
  readonly #recurse: ((iterable: PythonValue) => PythonValue) | null;
  /** All items, where they are at hand; else they come one by one. */
  #items: readonly PythonValue[] | null;
  readonly #iterator: PythonIterator | null;
  #taken = 0;
  #index0 = -1;
  #before: PythonValue | undefined;
  #current: PythonValue | undefined;
  /** The next item, when it has been looked at; `undefined` in the box at the end. */
  #ahead: { readonly item: PythonValue | undefined } | null = null;
  #lastChanged: readonly PythonValue[] | null = null;

  /** Throws a "TypeError" for what cannot be looped over. `recurse` renders a deeper level of a recursive loop. */
  constructor(iterable: PythonValue, depth0 = 0, recurse: ((iterable: PythonValue) => PythonValue) | null = null) {
    super();
    this.#items = sizedItems(iterable);
    this.#iterator = this.#items === null ? iteratorOf(iterable) : null;
    this.#depth0 = depth0;
    this.#recurse = recurse;
  }

  /** The next item; `undefined` at the end. */
  next(): PythonValue | undefined {
    const item = this.#ahead === null ? this.#take() : this.#ahead.item;
    if (item === undefined) return undefined;
    this.#ahead = null;
    this.#index0++;
    this.#before = this.#current;
    this.#current = item;
    return item;
  }

  override attribute(name: string): PythonValue | undefined {
    switch (name) {
      case "index":
        return this.#index0 + 1;
      case "index0":
        return this.#index0;
      case "revindex":
        return this.#countAll() - this.#index0;
      case "revindex0":
        return this.#countAll() - this.#index0 - 1;
      case "first":
        return this.#index0 === 0;
      case "last":
        return this.#lookAhead() === undefined;
      case "length":
        return this.#countAll();
      case "depth":
        return this.#depth0 + 1;
      case "depth0":
        return this.#depth0;
      case "previtem":
        return orUndefined(this.#before, "there is no previous item");
      case "nextitem":
        return orUndefined(this.#lookAhead(), "there is no next item");
      case "cycle":
        return new Callable("cycle", (args) => this.#cycle(args));
      case "changed":
        return new Callable("changed", (args) => this.#hasChanged(args));
      default:
        return undefined;
    }
  }

  /** A deeper level of a recursive loop. */
  override call({ positional: [iterable] }: CallArguments): PythonValue {
    if (this.#recurse === null) throw typeError("loop was called in a loop that is not recursive");
    if (iterable === undefined) throw typeError("loop was called without something to loop over");
    return this.#recurse(iterable);
  }

  #lookAhead(): PythonValue | undefined {
    this.#ahead ??= { item: this.#take() };
    return this.#ahead.item;
  }

  #take(): PythonValue | undefined {
    if (this.#items === null) {
      const item = this.#iterator?.next();
      if (item !== undefined) this.#taken++;
      return item;
    }
    return this.#items[this.#taken++];
  }

  #countAll(): number {
    if (this.#items === null) {
      // Those already taken are never asked for again.
      const taken = Array.from<PythonValue>({ length: this.#taken }).fill(null);
      this.#items = [...taken, ...(this.#iterator === null ? [] : itemsOf(this.#iterator))];
    }
    return this.#items.length;
  }

  #cycle({ positional }: CallArguments): PythonValue {
    if (positional.length === 0) throw typeError("there is nothing to cycle through");
    return positional[this.#index0 % positional.length]!;
  }

  #hasChanged({ positional }: CallArguments): boolean {
    const last = this.#lastChanged;
    const isSame =
      last?.length === positional.length && last.every((value, index) => pythonEquals(value, positional[index]!));
    this.#lastChanged = positional;
    return !isSame;
  }
}
