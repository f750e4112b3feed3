// What can be looped over beside lists, tuples, dicts and texts: ranges, views of dicts, and one-shot iterators. The lazy
// filters of Jinja give iterators, and a template can tell: they have no length and are used up once.

import type { PythonDict } from "./containers.ts";
import { PythonTuple } from "./containers.ts";
import { PythonObject, type Value } from "./value.ts";

/** Gives its items once. */
export class PythonIterator extends PythonObject {
  readonly typeName: string;
  /** The next item; `undefined` at the end. */
  readonly next: () => Value | undefined;

  constructor(next: () => Value | undefined, typeName = "generator") {
    super();
    this.next = next;
    this.typeName = typeName;
  }

  /** Over items that are worked out, or refused, only when the first is asked for. */
  static later(makeItems: () => Iterable<Value>): PythonIterator {
    let source: PythonIterator | null = null;
    return new PythonIterator(() => {
      source ??= PythonIterator.over(makeItems());
      return source.next();
    });
  }

  static over(items: Iterable<Value>, typeName?: string): PythonIterator {
    const iterator = items[Symbol.iterator]();
    return new PythonIterator(() => {
      const step = iterator.next();
      return step.done === true ? undefined : step.value;
    }, typeName);
  }
}

export class PythonRange extends PythonObject {
  readonly typeName = "range";
  readonly start: number;
  readonly stop: number;
  readonly step: number;

  constructor(start: number, stop: number, step: number) {
    super();
    this.start = start;
    this.stop = stop;
    this.step = step;
  }

  get length(): number {
    return Math.max(0, Math.ceil((this.stop - this.start) / this.step));
  }

  at(index: number): number {
    return this.start + index * this.step;
  }

  items(): number[] {
    const items: number[] = [];
    for (let index = 0; index < this.length; index++) items.push(this.at(index));
    return items;
  }
}

/** `dict.keys()`, `dict.values()`, `dict.items()`. */
export class DictView extends PythonObject {
  readonly kind: "keys" | "values" | "items";
  readonly dict: PythonDict;

  constructor(dict: PythonDict, kind: "keys" | "values" | "items") {
    super();
    this.dict = dict;
    this.kind = kind;
  }

  get typeName(): string {
    return `dict_${this.kind}`;
  }

  items(): Value[] {
    const entries = Array.from(this.dict.entries.values());
    if (this.kind === "keys") return entries.map(({ key }) => key);
    if (this.kind === "values") return entries.map(({ value }) => value);
    return entries.map(({ key, value }) => new PythonTuple([key, value]));
  }
}
