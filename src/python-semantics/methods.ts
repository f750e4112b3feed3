// Methods of Python's `str`, `dict`, `list`, `tuple` and `range` that only look; what would change an object Jinja's sandbox
// hides. `format` is in `format.ts`: it looks attributes up. Places are counted in code points.

import { bindArguments, bindPositional, expectText } from "./arguments.ts";
import { PythonError, typeError, valueError } from "./errors.ts";
import { pythonTypeName } from "./json/value.ts";
import { checkTextLength } from "./limits.ts";
import { expectIndex, isSame, isTruthy, itemsOf, pythonEquals } from "./operations.ts";
import {
  codePointIndex,
  codePointLength,
  pythonLower,
  pythonLstrip,
  pythonRstrip,
  unitOffset,
  whitespaceClass,
} from "./strings.ts";
import { concatStrings, emptyText, escapeText, templateText, TracedText } from "./traced-text.ts";
import {
  type CallArguments,
  DictView,
  PythonDict,
  PythonList,
  PythonRange,
  PythonTuple,
  type PythonValue,
} from "./values.ts";

type Method<Self> = (self: Self, args: CallArguments) => PythonValue;
type TextMethod = Method<TracedText>;

/** `text.replace(old, replacement, count)`; a negative count replaces all. */
export function replaceText(text: TracedText, old: TracedText, replacement: TracedText, count: number): TracedText {
  const most = count < 0 ? Infinity : count;
  const parts: TracedText[] = [];
  let start = 0;
  let length = text.text.length;
  for (const at of placesOf(text.text, old.text, most)) {
    parts.push(text.slice(start, at), replacement);
    checkTextLength((length += replacement.text.length - old.text.length));
    start = at + old.text.length;
  }
  if (parts.length === 0) return text;
  return concatStrings([...parts, text.slice(start)]).asMarkup(text.isMarkup);
}

/** Where a text is found, left to right without overlap; an empty one stands between all characters. */
function* placesOf(text: string, wanted: string, most: number): Iterable<number> {
  let found = 0;
  if (wanted === "") {
    for (let at = 0; at <= text.length && found < most; found++) {
      yield at;
      at += text.codePointAt(at)! > 0xffff ? 2 : 1;
    }
    return;
  }
  for (let at = text.indexOf(wanted); at !== -1 && found < most; at = text.indexOf(wanted, at + wanted.length)) {
    found++;
    yield at;
  }
}

/** `separator.join(parts)`. */
export function joinStrings(separator: TracedText, parts: readonly TracedText[]): TracedText {
  const length = parts.reduce((sum, { text }) => sum + text.length + separator.text.length, 0);
  checkTextLength(length);
  if (separator.text === "") return concatStrings(parts);
  return concatStrings(parts.flatMap((part, index) => (index === 0 ? [part] : [separator, part])));
}

function join(separator: TracedText, args: CallArguments): TracedText {
  const parts = itemsOf(bindPositional("join", args, 1, 1)[0]!).map((item) => {
    if (item instanceof TracedText) return separator.isMarkup ? escapeText(item) : item;
    throw typeError(`join wants texts, not a ${pythonTypeName(item)}`);
  });
  return joinStrings(separator, parts).asMarkup(separator.isMarkup);
}

/** The text in the middle of so many characters, or at one side. */
export function fillText(
  text: TracedText,
  width: number,
  options: { side: "left" | "right" | "both"; fill: string },
): TracedText {
  const missing = width - codePointLength(text.text);
  if (missing <= 0) return text;
  checkTextLength(width);
  // CPython gives the odd character to the left when width is odd too.
  const half = Math.floor(missing / 2) + (missing & width & 1);
  const before = options.side === "left" ? 0 : options.side === "right" ? missing : half;
  const fill = (count: number): TracedText => templateText(options.fill.repeat(count));
  return concatStrings([fill(before), text, fill(missing - before)]).asMarkup(text.isMarkup);
}

function filling(name: string, side: "left" | "right" | "both"): readonly [string, TextMethod] {
  return [
    name,
    (text, args) => {
      const [width, fill = templateText(" ")] = bindPositional(name, args, 1, 2);
      const character = expectText(fill, name).text;
      if (codePointLength(character) !== 1) throw typeError(`${name} fills with one character`);
      return fillText(text, expectIndex(width!), { side, fill: character });
    },
  ];
}

function fillZeros(text: TracedText, args: CallArguments): TracedText {
  const width = expectIndex(bindPositional("zfill", args, 1, 1)[0]!);
  const signLength = /^[+-]/.test(text.text) ? 1 : 0;
  const digits = fillText(text.slice(signLength), width - signLength, { side: "right", fill: "0" });
  return concatStrings([text.slice(0, signLength), digits]).asMarkup(text.isMarkup);
}

function expandTabs(text: TracedText, args: CallArguments): TracedText {
  const size = expectIndex(bindArguments("expandtabs", args, ["tabsize"])[0] ?? 8);
  let column = 0;
  const parts = Array.from(text.text, (character) => {
    const width = character !== "\t" ? 1 : size > 0 ? size - (column % size) : 0;
    column = character === "\n" || character === "\r" ? 0 : column + width;
    return character === "\t" ? " ".repeat(width) : character;
  });
  return text.with(parts.join(""));
}

export function capitalize(text: string): string {
  const [first = ""] = text;
  return titleCharacter(first) + pythonLower(text.slice(first.length));
}

/** `str.title`: the first letter of every run of letters is capital. Jinja's filter of that name splits words differently. */
function title(text: string): string {
  return text.replace(/\p{Cased}[\p{Cased}\p{M}]*/gu, (word) => capitalize(word));
}

function swapCase(text: string): string {
  return Array.from(text, (character) => {
    const lower = character.toLowerCase();
    return lower === character ? character.toUpperCase() : lower;
  }).join("");
}

/** Titlecase: a capital, except for the four digraphs that have a form of their own, and for ligatures. */
function titleCharacter(character: string): string {
  const upper = character.toUpperCase();
  const digraph = "ǅǈǋǲ"["ǄǇǊǱ".indexOf(upper)];
  if (digraph !== undefined && upper.length === 1 && "ǄǇǊǱ".includes(upper)) return digraph;
  if (character === "ŉ") return upper;
  return upper.length > character.length ? upper[0] + upper.slice(1).toLowerCase() : upper;
}

/** At least one cased letter, and none of the other case. */
export function isLower(text: string): boolean {
  return /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text);
}

export function isUpper(text: string): boolean {
  return /\p{Uppercase}/u.test(text) && !/[\p{Lowercase}\p{Lt}]/u.test(text);
}

/** Capitals only after what has no case, small letters only after what has. */
function isTitle(text: string): boolean {
  let isAfterCased = false;
  let isAnyCased = false;
  for (const character of text) {
    const isCapital = /[\p{Uppercase}\p{Lt}]/u.test(character);
    const isCased = isCapital || /\p{Lowercase}/u.test(character);
    if (isCased && isCapital === isAfterCased) return false;
    isAfterCased = isCased;
    isAnyCased ||= isCased;
  }
  return isAnyCased;
}

/** The part `[start, end)` that a search is limited to, as text and as offset; `null` when it starts past the end. */
function window(text: string, args: readonly PythonValue[]): { readonly part: string; readonly start: number } | null {
  const [start = null, end = null] = args.slice(1);
  if (start === null && end === null) return { part: text, start: 0 };
  const length = codePointLength(text);
  const place = (value: PythonValue, otherwise: number): number => {
    const index = value === null ? otherwise : expectIndex(value);
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
      const wanted = bound[0] instanceof PythonTuple ? bound[0].items() : [bound[0]!];
      const limits = window(text.text, bound);
      const texts = wanted.map((value) => expectText(value, name).text);
      return limits !== null && texts.some((part) => test(limits.part, part));
    },
  ];
}

function search(name: string, find: (text: string, part: string) => number): readonly [string, TextMethod] {
  const place = (text: TracedText, args: CallArguments): number => {
    const bound = bindPositional(name, args, 1, 3);
    const wanted = expectText(bound[0]!, name).text;
    const limits = window(text.text, bound);
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
  const limits = window(text.text, bound);
  if (limits === null) return 0;
  return wanted === "" ? codePointLength(limits.part) + 1 : limits.part.split(wanted).length - 1;
}

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
  const most = expectIndex(limit);
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
  const cut = (text: TracedText, args: CallArguments): PythonValue => {
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

/** `text.strip(characters)`; None strips white space. */
export function strip(
  text: TracedText,
  characters: PythonValue = null,
  sides: "both" | "left" | "right" = "both",
): TracedText {
  if (characters !== null && !(characters instanceof TracedText)) {
    throw typeError(`strip wants a text or None, not a ${pythonTypeName(characters)}`);
  }
  const set = characters?.text;
  const end = sides === "left" ? text.text.length : pythonRstrip(text.text, set).length;
  const kept = text.text.slice(0, end);
  const start = sides === "right" ? 0 : kept.length - pythonLstrip(kept, set).length;
  return start === 0 && end === text.text.length ? text : text.slice(start, end);
}

function stripping(name: string, sides: "both" | "left" | "right"): readonly [string, TextMethod] {
  return [name, (text, args) => strip(text, bindPositional(name, args, 0, 1)[0], sides)];
}

/** A method without arguments that maps the text as a whole. */
function mapped(name: string, map: (text: string) => string): readonly [string, TextMethod] {
  return [name, (text, args) => (bindPositional(name, args, 0, 0), text.with(map(text.text)))];
}

/** A method without arguments that tells what kind its characters are of. */
function question(name: string, ask: (text: string) => boolean): readonly [string, TextMethod] {
  return [name, (text, args) => (bindPositional(name, args, 0, 0), ask(text.text))];
}

const matches = (name: string, pattern: RegExp): readonly [string, TextMethod] =>
  question(name, (text) => pattern.test(text));

const textMethods: ReadonlyMap<string, TextMethod> = new Map<string, TextMethod>([
  mapped("upper", (text) => text.toUpperCase()),
  mapped("lower", pythonLower),
  mapped("casefold", (text) => pythonLower(text).replaceAll("ß", "ss")),
  mapped("capitalize", capitalize),
  mapped("title", title),
  mapped("swapcase", swapCase),
  matches("isalpha", /^\p{L}+$/u),
  matches("isdecimal", /^\p{Nd}+$/u),
  matches("isdigit", /^[\p{Nd}\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u2080-\u2089]+$/u),
  matches("isnumeric", /^\p{N}+$/u),
  matches("isalnum", /^[\p{L}\p{N}]+$/u),
  matches("isspace", new RegExp(`^[${whitespaceClass}]+$`)),
  // oxlint-disable-next-line no-control-regex
  matches("isascii", /^[\u0000-\u007f]*$/),
  matches("isidentifier", /^[\p{ID_Start}_][\p{ID_Continue}]*$/u),
  question("islower", isLower),
  question("isupper", isUpper),
  question("istitle", isTitle),
  edge("startswith", (text, part) => text.startsWith(part)),
  edge("endswith", (text, part) => text.endsWith(part)),
  search("find", (text, part) => text.indexOf(part)),
  search("rfind", (text, part) => text.lastIndexOf(part)),
  search("index", (text, part) => text.indexOf(part)),
  search("rindex", (text, part) => text.lastIndexOf(part)),
  ["count", countParts],
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
  stripping("strip", "both"),
  stripping("lstrip", "left"),
  stripping("rstrip", "right"),
  [
    "removeprefix",
    (text, args) => {
      const prefix = expectText(bindPositional("removeprefix", args, 1, 1)[0]!, "removeprefix");
      return text.text.startsWith(prefix.text) ? text.slice(prefix.text.length) : text;
    },
  ],
  [
    "removesuffix",
    (text, args) => {
      const suffix = expectText(bindPositional("removesuffix", args, 1, 1)[0]!, "removesuffix");
      const isThere = suffix.text !== "" && text.text.endsWith(suffix.text);
      return isThere ? text.slice(0, text.text.length - suffix.text.length) : text;
    },
  ],
  [
    "replace",
    (text, args) => {
      const [old, replacement, count = -1] = bindPositional("replace", args, 2, 3);
      const inserted = expectText(replacement!, "replace");
      const safe = text.isMarkup ? escapeText(inserted) : inserted;
      return replaceText(text, expectText(old!, "replace"), safe, expectIndex(count));
    },
  ],
  ["join", join],
  [
    "encode",
    () => {
      throw new PythonError("unsupported", "bytes are not supported");
    },
  ],
  filling("center", "both"),
  filling("ljust", "left"),
  filling("rjust", "right"),
  ["zfill", fillZeros],
  ["expandtabs", expandTabs],
]);

const isItem = (wanted: PythonValue) => (item: PythonValue) => isSame(item, wanted) || pythonEquals(item, wanted);

type Sequence = PythonList | PythonTuple | PythonRange;

const sequenceMethods: ReadonlyMap<string, Method<Sequence>> = new Map<string, Method<Sequence>>([
  ["count", (sequence, args) => sequence.items().filter(isItem(bindPositional("count", args, 1, 1)[0]!)).length],
  [
    "index",
    (sequence, args) => {
      const found = sequence.items().findIndex(isItem(bindPositional("index", args, 1, 3)[0]!));
      if (found === -1) throw valueError("an item was not found in a list");
      return found;
    },
  ],
]);

const listMethods: ReadonlyMap<string, Method<PythonList>> = new Map<string, Method<PythonList>>([
  ...sequenceMethods,
  ["copy", (list, args) => (bindPositional("copy", args, 0, 0), PythonList.of(list.items()))],
]);

const view = (kind: "keys" | "values" | "items"): readonly [string, Method<PythonDict>] => [
  kind,
  (dict, args) => (bindPositional(kind, args, 0, 0), new DictView(dict, kind)),
];

const dictMethods: ReadonlyMap<string, Method<PythonDict>> = new Map<string, Method<PythonDict>>([
  view("keys"),
  view("values"),
  view("items"),
  [
    "get",
    (dict, args) => {
      const [key, otherwise = null] = bindPositional("get", args, 1, 2);
      const value = dict.get(key!);
      return value === undefined ? otherwise : value;
    },
  ],
  ["copy", (dict, args) => (bindPositional("copy", args, 0, 0), PythonDict.of(dict.entries.values()))],
]);

/** The method of that name, bound to its object; `undefined` when there is none. */
export function methodOf(object: PythonValue, name: string): ((args: CallArguments) => PythonValue) | undefined {
  if (object instanceof TracedText) return bind(object, textMethods.get(name));
  if (object instanceof PythonDict) return bind(object, dictMethods.get(name));
  if (object instanceof PythonList) return bind(object, listMethods.get(name));
  const isSequence = object instanceof PythonTuple || object instanceof PythonRange;
  return isSequence ? bind(object, sequenceMethods.get(name)) : undefined;
}

function bind<Self>(self: Self, method: Method<Self> | undefined): ((args: CallArguments) => PythonValue) | undefined {
  return method && ((args) => method(self, args));
}
