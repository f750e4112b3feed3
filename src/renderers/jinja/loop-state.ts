// The variable `loop`. It reads one item ahead only if requested, and counts an iterator's items
// only for a length, like Jinja's: a lazy filter may therefore raise later than expected.

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
  /** All items, if they are available; else they are read one by one. */
  #items: readonly PythonValue[] | null;
  readonly #iterator: PythonIterator | null;
  #taken = 0;
  #index0 = -1;
  #before: PythonValue | undefined;
  #current: PythonValue | undefined;
  /** The next item, if it has been read ahead; `item` is `undefined` at the end. */
  #ahead: { readonly item: PythonValue | undefined } | null = null;
  #lastChanged: readonly PythonValue[] | null = null;

  static readonly #attributes: Readonly<Record<string, (loop: LoopState) => PythonValue>> = {
    index: (loop) => loop.#index0 + 1,
    index0: (loop) => loop.#index0,
    revindex: (loop) => loop.#countAll() - loop.#index0,
    revindex0: (loop) => loop.#countAll() - loop.#index0 - 1,
    first: (loop) => loop.#index0 === 0,
    last: (loop) => loop.#lookAhead() === undefined,
    length: (loop) => loop.#countAll(),
    depth: (loop) => loop.#depth0 + 1,
    depth0: (loop) => loop.#depth0,
    previtem: (loop) => orUndefined(loop.#before, "there is no previous item"),
    nextitem: (loop) => orUndefined(loop.#lookAhead(), "there is no next item"),
    cycle: (loop) => new Callable("cycle", ({ positional }) => loop.#cycle(positional)),
    changed: (loop) => new Callable("changed", ({ positional }) => loop.#hasChanged(positional)),
  };

  /**
   * Throws a "TypeError" for a value that cannot be looped over. `recurse` renders a deeper level
   * of a recursive loop.
   */
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
    return Object.hasOwn(LoopState.#attributes, name) ? LoopState.#attributes[name]!(this) : undefined;
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
    const item = this.#items === null ? this.#iterator!.next() : this.#items[this.#taken];
    if (item !== undefined) this.#taken++;
    return item;
  }

  #countAll(): number {
    // Items that were taken already are never requested again, so `null` stands in for them.
    this.#items ??= [...Array.from<PythonValue>({ length: this.#taken }).fill(null), ...itemsOf(this.#iterator)];
    return this.#items.length;
  }

  #cycle(values: readonly PythonValue[]): PythonValue {
    if (values.length === 0) throw typeError("there is nothing to cycle through");
    return values[this.#index0 % values.length]!;
  }

  #hasChanged(values: readonly PythonValue[]): boolean {
    const last = this.#lastChanged;
    const isSame = last?.length === values.length && last.every((value, index) => pythonEquals(value, values[index]!));
    this.#lastChanged = values;
    return !isSame;
  }
}
