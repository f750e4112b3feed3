// Methods of `str` that cut a text into pieces.

import { bindArguments, bindPositional, expectIndex, expectText } from "../operations/bind-arguments.ts";
import { PythonList, PythonTuple } from "../values/containers.ts";
import { valueError } from "../values/raise.ts";
import { isTruthy } from "../values/iteration.ts";
import { emptyText, type TracedText } from "../values/traced-text.ts";
import type { CallArguments, Value } from "../values/value.ts";
import { whitespaceClass } from "../values/whitespace.ts";
import type { TextMethod } from "./text-method.ts";

const word = new RegExp(`[^${whitespaceClass}]+`, "g");
// What Python takes for the end of a line; the pair counts once.
// oxlint-disable-next-line no-control-regex
const lineEnd = /\r\n|[\n\r\v\f\u001c-\u001e\u0085\u2028\u2029]/g;

/** `text.splitlines()`. */
export function splitLines(text: TracedText, keepEnds = false): TracedText[] {
  const lines: TracedText[] = [];
  let start = 0;
  for (const { 0: end, index } of text.text.matchAll(lineEnd)) {
    lines.push(text.slice(start, index + (keepEnds ? end.length : 0)));
    start = index + end.length;
  }
  if (start < text.text.length) lines.push(text.slice(start));
  return lines;
}

function split(text: TracedText, args: CallArguments): PythonList {
  const { separator, most } = splitArguments("split", args);
  if (separator === null) return PythonList.of(splitWords(text, most));
  const pieces: TracedText[] = [];
  let start = 0;
  for (
    let at = text.text.indexOf(separator);
    at !== -1 && pieces.length < most;
    at = text.text.indexOf(separator, start)
  ) {
    pieces.push(text.slice(start, at));
    start = at + separator.length;
  }
  return PythonList.of([...pieces, text.slice(start)]);
}

function splitFromRight(text: TracedText, args: CallArguments): PythonList {
  const { separator, most } = splitArguments("rsplit", args);
  if (separator === null) return PythonList.of(splitWordsFromRight(text, most));
  const pieces: TracedText[] = [];
  let end = text.text.length;
  while (pieces.length < most) {
    const at = end < separator.length ? -1 : text.text.lastIndexOf(separator, end - separator.length);
    if (at === -1) break;
    pieces.unshift(text.slice(at + separator.length, end));
    end = at;
  }
  return PythonList.of([text.slice(0, end), ...pieces]);
}

function splitArguments(
  name: string,
  args: CallArguments,
): { readonly separator: string | null; readonly most: number } {
  const [given = null, limit = -1] = bindArguments(name, args, ["sep", "maxsplit"]);
  const separator = given === null ? null : expectText(given, name).text;
  if (separator === "") throw valueError("a text was to be split at nothing");
  const most = expectIndex(limit, name);
  return { separator, most: most < 0 ? Infinity : most };
}

function splitWords(text: TracedText, most: number): TracedText[] {
  const words = [...text.text.matchAll(word)];
  const pieces = words.slice(0, most).map(({ 0: found, index }) => text.slice(index, index + found.length));
  const rest = words[pieces.length];
  if (rest === undefined) return pieces;
  // What is left keeps all its white space, but none before it.
  return [...pieces, text.slice(rest.index)];
}

function splitWordsFromRight(text: TracedText, most: number): TracedText[] {
  const words = [...text.text.matchAll(word)];
  const taken = most >= words.length ? words : words.slice(words.length - most);
  const pieces = taken.map(({ 0: found, index }) => text.slice(index, index + found.length));
  const last = words[words.length - taken.length - 1];
  return last === undefined ? pieces : [text.slice(0, last.index + last[0].length), ...pieces];
}

function partition(name: string, find: (text: string, separator: string) => number): readonly [string, TextMethod] {
  const cut = (text: TracedText, args: CallArguments): Value => {
    const separator = expectText(bindPositional(name, args, 1, 1)[0]!, name).text;
    if (separator === "") throw valueError("a text was to be split at nothing");
    const at = find(text.text, separator);
    if (at === -1)
      return new PythonTuple(name === "partition" ? [text, emptyText, emptyText] : [emptyText, emptyText, text]);
    const end = at + separator.length;
    return new PythonTuple([text.slice(0, at), text.slice(at, end), text.slice(end)]);
  };
  return [name, cut];
}

export const textSplitMethods: readonly (readonly [string, TextMethod])[] = [
  ["split", split],
  ["rsplit", splitFromRight],
  [
    "splitlines",
    (text, args) => {
      const [keepEnds = false] = bindArguments("splitlines", args, ["keepends"]);
      return PythonList.of(splitLines(text, isTruthy(keepEnds)));
    },
  ],
  partition("partition", (text, separator) => text.indexOf(separator)),
  partition("rpartition", (text, separator) => text.lastIndexOf(separator)),
];
