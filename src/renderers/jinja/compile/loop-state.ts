// The variable `loop`. It looks one item ahead only when asked, and counts an iterator's items only when asked for a length,
// as Jinja's does: a lazy filter may raise later than one would think.

import { AttributeObject } from "../values/attribute-object.ts";
import { PythonIterator } from "../values/iterables.ts";
import { iteratorOf, itemsOf, sizedItems } from "../values/iteration.ts";
import { areEqual } from "../operations/equality.ts";
import { typeError } from "../values/raise.ts";
import { Callable, type CallArguments, orUndefined, type Value } from "../values/value.ts";

export class LoopState extends AttributeObject {
  readonly typeName = "LoopContext";
  readonly #depth0: number;
  readonly #recurse: ((iterable: Value) => Value) | null;
  #iterator: PythonIterator;
  #length: number | null;
  #index0 = -1;
  #before: Value | undefined;
  #current: Value | undefined;
  /** The next item, when it has been looked at; `undefined` in the box at the end. */
  #ahead: { readonly item: Value | undefined } | null = null;
  #lastChanged: readonly Value[] | null = null;

  /** Throws a "TypeError" for what cannot be looped over. `recurse` renders a deeper level of a recursive loop. */
  constructor(iterable: Value, depth0 = 0, recurse: ((iterable: Value) => Value) | null = null) {
    super();
    const sized = sizedItems(iterable);
    this.#length = sized?.length ?? null;
    this.#iterator = sized === null ? iteratorOf(iterable) : PythonIterator.over(sized);
    this.#depth0 = depth0;
    this.#recurse = recurse;
  }

  /** The next item; `undefined` at the end. */
  next(): Value | undefined {
    const item = this.#ahead === null ? this.#iterator.next() : this.#ahead.item;
    if (item === undefined) return undefined;
    this.#ahead = null;
    this.#index0++;
    this.#before = this.#current;
    this.#current = item;
    return item;
  }

  attribute(name: string): Value | undefined {
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
  override call({ positional: [iterable] }: CallArguments): Value {
    if (this.#recurse === null) throw typeError("loop was called in a loop that is not recursive");
    if (iterable === undefined) throw typeError("loop was called without something to loop over");
    return this.#recurse(iterable);
  }

  #lookAhead(): Value | undefined {
    this.#ahead ??= { item: this.#iterator.next() };
    return this.#ahead.item;
  }

  #countAll(): number {
    if (this.#length === null) {
      const rest = itemsOf(this.#iterator);
      this.#iterator = PythonIterator.over(rest);
      const isOneAhead = this.#ahead !== null && this.#ahead.item !== undefined;
      this.#length = rest.length + this.#index0 + 1 + (isOneAhead ? 1 : 0);
    }
    return this.#length;
  }

  #cycle({ positional }: CallArguments): Value {
    if (positional.length === 0) throw typeError("there is nothing to cycle through");
    return positional[this.#index0 % positional.length]!;
  }

  #hasChanged({ positional }: CallArguments): boolean {
    const last = this.#lastChanged;
    const isSame =
      last?.length === positional.length && last.every((value, index) => areEqual(value, positional[index]!));
    this.#lastChanged = positional;
    return !isSame;
  }
}
