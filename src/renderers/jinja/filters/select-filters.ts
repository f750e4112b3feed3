// Filters that run another filter or a test over every item. Lazy, as in Jinja: nothing is asked, and no error raised,
// before the result is looked at.

import { bindArguments } from "../operations/bind-arguments.ts";
import type { Meter } from "../limits.ts";
import { runTest } from "../tests.ts";
import { PythonIterator } from "../values/iterables.ts";
import { isTruthy, iteratorOf } from "../values/iteration.ts";
import { pythonError, undefinedError } from "../values/raise.ts";
import { TracedText } from "../values/traced-text.ts";
import { type CallArguments, Undefined, type Value } from "../values/value.ts";
import { attributeGetter, type Getter } from "./attribute-path.ts";
import type { Filter } from "./filter.ts";

/** Starts with the first item that is asked for; a false value has none, and nothing else is looked at. */
function lazily(value: Value, start: (source: PythonIterator) => () => Value | undefined): PythonIterator {
  let next: (() => Value | undefined) | null = null;
  return new PythonIterator(() => {
    next ??= isTruthy(value) ? start(iteratorOf(value)) : () => undefined;
    return next();
  });
}

/** `map(attribute=...)` or `map("filter", ...)`, with a way to find the other filters. */
export function createMapFilter(find: (name: string) => Filter | undefined): Filter {
  return (value, args, meter) =>
    lazily(value, (source) => {
      const change = mapping(args, { find, meter });
      return () => {
        const item = source.next();
        return item === undefined ? undefined : change(item);
      };
    });
}

function mapping(
  args: CallArguments,
  { find, meter }: { readonly find: (name: string) => Filter | undefined; readonly meter: Meter },
): Getter {
  const [name, ...rest] = args.positional;
  if (name === undefined) {
    if (!args.named.has("attribute")) throw pythonError("FilterArgumentError", "map wants a filter or an attribute");
    const [attribute, otherwise = null] = bindArguments("map", args, ["attribute", "default"]);
    return attributeGetter(attribute!, otherwise);
  }
  const filter = name instanceof TracedText ? find(name.text) : undefined;
  if (filter === undefined) throw unknownName("filter", name);
  return (item) => filter(item, { positional: rest, named: args.named }, meter);
}

function selecting(options: { readonly isKept: boolean; readonly byAttribute: boolean }): Filter {
  return (value, args) =>
    lazily(value, (source) => {
      const isChosen = choosing(args, options.byAttribute);
      return () => {
        for (let item = source.next(); item !== undefined; item = source.next()) {
          if (isChosen(item) === options.isKept) return item;
        }
        return undefined;
      };
    });
}

function choosing(args: CallArguments, byAttribute: boolean): (item: Value) => boolean {
  const [attribute, name, ...rest] = byAttribute ? args.positional : [null, ...args.positional];
  if (attribute === undefined) throw pythonError("FilterArgumentError", "an attribute to select by is missing");
  const get = attributeGetter(attribute);
  if (name === undefined) return (item) => isTruthy(get(item));
  if (!(name instanceof TracedText)) throw unknownName("test", name);
  return (item) => runTest(name.text, get(item), { positional: rest, named: args.named });
}

function unknownName(what: string, name: Value): Error {
  if (name instanceof Undefined) return undefinedError(name);
  return pythonError("TemplateRuntimeError", `there is no such ${what}`);
}

export const selectFilters: readonly (readonly [string, Filter])[] = [
  ["select", selecting({ isKept: true, byAttribute: false })],
  ["reject", selecting({ isKept: false, byAttribute: false })],
  ["selectattr", selecting({ isKept: true, byAttribute: true })],
  ["rejectattr", selecting({ isKept: false, byAttribute: true })],
];
