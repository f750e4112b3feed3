// Methods of `str` that look for other text. Places are counted in code points.

import { bindPositional, expectIndex, expectText } from "../operations/bind-arguments.ts";
import { codePointIndex, codePointLength, unitOffset } from "../values/code-points.ts";
import { PythonTuple } from "../values/containers.ts";
import { valueError } from "../values/raise.ts";
import type { TracedText } from "../values/traced-text.ts";
import type { CallArguments, Value } from "../values/value.ts";
import type { TextMethod } from "./text-method.ts";

/** The part `[start, end)` that a search is limited to, as text and as offset; `null` when it starts past the end. */
function window(
  text: string,
  args: readonly Value[],
  name: string,
): { readonly part: string; readonly start: number } | null {
  const [start = null, end = null] = args.slice(1);
  if (start === null && end === null) return { part: text, start: 0 };
  const length = codePointLength(text);
  const place = (value: Value, otherwise: number): number => {
    const index = value === null ? otherwise : expectIndex(value, name);
    return index < 0 ? Math.max(0, index + length) : index;
  };
  const from = place(start, 0);
  if (from > length) return null;
  const unitStart = unitOffset(text, from);
  return { part: text.slice(unitStart, Math.max(unitStart, unitOffset(text, place(end, length)))), start: unitStart };
}

function edge(name: string, test: (text: string, part: string) => boolean): readonly [string, TextMethod] {
  return [
    name,
    (text, args) => {
      const bound = bindPositional(name, args, 1, 3);
      const wanted = bound[0] instanceof PythonTuple ? bound[0].items : [bound[0]!];
      const limits = window(text.text, bound, name);
      const texts = wanted.map((value) => expectText(value, name).text);
      return limits !== null && texts.some((part) => test(limits.part, part));
    },
  ];
}

function search(name: string, find: (text: string, part: string) => number): readonly [string, TextMethod] {
  const place = (text: TracedText, args: CallArguments): number => {
    const bound = bindPositional(name, args, 1, 3);
    const wanted = expectText(bound[0]!, name).text;
    const limits = window(text.text, bound, name);
    const at = limits === null ? -1 : find(limits.part, wanted);
    if (at === -1 && name.endsWith("index")) throw valueError("a text was not found in another");
    return at === -1 ? -1 : codePointIndex(text.text, limits!.start + at);
  };
  return [name, place];
}

/** `text.count(part)`: places that do not overlap. */
function countParts(text: TracedText, args: CallArguments): number {
  const bound = bindPositional("count", args, 1, 3);
  const wanted = expectText(bound[0]!, "count").text;
  const limits = window(text.text, bound, "count");
  if (limits === null) return 0;
  return wanted === "" ? codePointLength(limits.part) + 1 : limits.part.split(wanted).length - 1;
}

const first = (text: string, part: string): number => text.indexOf(part);
const last = (text: string, part: string): number => text.lastIndexOf(part);

export const textSearchMethods: readonly (readonly [string, TextMethod])[] = [
  edge("startswith", (text, part) => text.startsWith(part)),
  edge("endswith", (text, part) => text.endsWith(part)),
  search("find", first),
  search("rfind", last),
  search("index", first),
  search("rindex", last),
  ["count", countParts],
];
