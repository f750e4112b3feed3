// Every filter of Jinja that is built, by name, and the names of those that are not.

import { bindArguments, expectText } from "../operations/bind-arguments.ts";
import { pythonAttribute } from "../operations/lookup.ts";
import { undefinedError } from "../values/raise.ts";
import { orUndefined, Undefined } from "../values/value.ts";
import type { Filter } from "./filter.ts";
import { toJson } from "./json-filter.ts";
import { numberFilters } from "./number-filters.ts";
import { orderFilters } from "./order-filters.ts";
import { createMapFilter, selectFilters } from "./select-filters.ts";
import { sequenceFilters } from "./sequence-filters.ts";
import { textFilters } from "./text-filters.ts";

const attribute: Filter = (value, args) => {
  const [name] = bindArguments("attr", args, ["name"], 1);
  const key = expectText(name!, "attr").text;
  if (value instanceof Undefined) throw undefinedError(value);
  return orUndefined(pythonAttribute(value, key), `there is no attribute "${key}"`);
};

export const filters: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ...textFilters,
  ...sequenceFilters,
  ...orderFilters,
  ...numberFilters,
  ...selectFilters,
  ["map", createMapFilter((name) => filters.get(name))],
  ["tojson", toJson],
  ["attr", attribute],
]);

/** Filters that Jinja has and we have not: made for web pages, or random. A template that names one is refused. */
export const unsupportedFilters: ReadonlySet<string> = new Set([
  "filesizeformat",
  "pprint",
  "random",
  "striptags",
  "urlencode",
  "urlize",
  "wordwrap",
  "xmlattr",
]);
