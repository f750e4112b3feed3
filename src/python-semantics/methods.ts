// Read-only methods of Python's `str`, `dict`, `list`, `tuple` and `range`; Jinja's sandbox hides
// the mutating ones. `format` is in `format.ts`, because it looks up attributes. Positions are
// counted in code points.

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

/**
 * The arguments in the order of `parameters`; `undefined` for an omitted one. Throws Python's
 * "TypeError" for too many, unknown or missing ones.
 */
export function bindArguments(
  callee: string,
  args: CallArguments,
  parameters: readonly string[],
  required = 0,
): readonly (PythonValue | undefined)[] {
  if (args.positional.length > parameters.length) {
    throw typeError(`${callee} takes at most ${parameters.length} arguments, not ${args.positional.length}`);
  }
  const bound: (PythonValue | undefined)[] = [...args.positional];
  for (const [name, value] of args.named) {
    const index = parameters.indexOf(name);
    if (index === -1 || index < args.positional.length) {
      throw typeError(`${callee} takes no further argument "${name}"`);
    }
    bound[index] = value;
  }
  for (let index = 0; index < required; index++) {
    if (bound[index] === undefined) throw typeError(`${callee} lacks the argument "${parameters[index]}"`);
  }
  return bound;
}

/** Binds the arguments of a method that takes them only by position. */
export function bindPositional(
  callee: string,
  args: CallArguments,
  required: number,
  most: number,
): readonly PythonValue[] {
  if (args.named.size > 0) throw typeError(`${callee} takes no keyword arguments`);
  const { length } = args.positional;
  if (length < required || length > most) throw typeError(`${callee} does not take ${length} arguments`);
  return args.positional;
}

export function expectText(value: PythonValue, callee: string): TracedText {
  if (value instanceof TracedText) return value;
  throw typeError(`${callee} takes a text, not a ${pythonTypeName(value)}`);
}

type Method<Self> = (self: Self, args: CallArguments, name: string) => PythonValue;

/** A method that takes its arguments only by position, with a minimum and a maximum number. */
const positional =
  <Self>(
    [least, most]: readonly [number, number],
    run: (self: Self, args: readonly PythonValue[], name: string) => PythonValue,
  ): Method<Self> =>
  (self, args, name) =>
    run(self, bindPositional(name, args, least, most), name);

/** A method whose arguments may be given by name, and are all optional. */
const named =
  <Self>(
    parameters: readonly string[],
    run: (self: Self, args: readonly (PythonValue | undefined)[], name: string) => PythonValue,
  ): Method<Self> =>
  (self, args, name) =>
    run(self, bindArguments(name, args, parameters), name);

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

/**
 * Positions of a part in a text, left to right without overlap; an empty part is found between all
 * characters.
 */
function* placesOf(text: string, part: string, most: number): Iterable<number> {
  let found = 0;
  if (part === "") {
    for (let at = 0; at <= text.length && found < most; found++) {
      yield at;
      at += text.codePointAt(at)! > 0xffff ? 2 : 1;
    }
    return;
  }
  for (let at = text.indexOf(part); at !== -1 && found < most; at = text.indexOf(part, at + part.length)) {
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

/** Pads the text to a number of characters, centred or on one side. */
export function fillText(
  text: TracedText,
  width: number,
  options: { side: "left" | "right" | "both"; fill: string },
): TracedText {
  const missing = width - codePointLength(text.text);
  if (missing <= 0) return text;
  checkTextLength(width);
  // CPython puts the odd character on the left if the width is odd too.
  const half = Math.floor(missing / 2) + (missing & width & 1);
  const before = options.side === "left" ? 0 : options.side === "right" ? missing : half;
  const fill = (count: number): TracedText => templateText(options.fill.repeat(count));
  return concatStrings([fill(before), text, fill(missing - before)]).asMarkup(text.isMarkup);
}

function filling(side: "left" | "right" | "both"): Method<TracedText> {
  return positional([1, 2], (text, [width, fill = templateText(" ")], name) => {
    const character = expectText(fill, name).text;
    if (codePointLength(character) !== 1) throw typeError(`${name} fills with one character`);
    return fillText(text, expectIndex(width!), { side, fill: character });
  });
}

function expandTabs(text: string, size: number): string {
  let column = 0;
  const parts = Array.from(text, (character) => {
    const width = character !== "\t" ? 1 : size > 0 ? size - (column % size) : 0;
    column = character === "\n" || character === "\r" ? 0 : column + width;
    return character === "\t" ? " ".repeat(width) : character;
  });
  return parts.join("");
}

export function capitalize(text: string): string {
  const [first = ""] = text;
  return titleCharacter(first) + pythonLower(text.slice(first.length));
}

/**
 * `str.title`: the first letter of every run of letters becomes a capital. Jinja's filter of that
 * name splits text differently.
 */
export function pythonTitle(text: string): string {
  return text.replace(/\p{Cased}[\p{Cased}\p{M}]*/gu, (word) => capitalize(word));
}

function swapCase(text: string): string {
  return Array.from(text, (character) => {
    const lower = character.toLowerCase();
    return lower === character ? character.toUpperCase() : lower;
  }).join("");
}

/**
 * Titlecase of a character: the capital, except for four digraphs that have a separate form, and
 * for ligatures.
 */
function titleCharacter(character: string): string {
  const upper = character.toUpperCase();
  const digraph = "ǅǈǋǲ"["ǄǇǊǱ".indexOf(upper)];
  if (digraph !== undefined && upper.length === 1 && "ǄǇǊǱ".includes(upper)) return digraph;
  if (character === "ŉ") return upper;
  return upper.length > character.length ? upper[0] + upper.slice(1).toLowerCase() : upper;
}

/** True if the text has at least one cased letter, and none of the other case. */
export function isLower(text: string): boolean {
  return /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text);
}

export function isUpper(text: string): boolean {
  return /\p{Uppercase}/u.test(text) && !/[\p{Lowercase}\p{Lt}]/u.test(text);
}

/** True if capitals occur only after uncased characters, and small letters only after cased ones. */
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

/**
 * The part `[start, end)` that a search is limited to, as text and as offset; `null` if it starts
 * past the end.
 */
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

function edge(test: (text: string, part: string) => boolean): Method<TracedText> {
  return positional([1, 3], (text, args, name) => {
    const parts = args[0] instanceof PythonTuple ? args[0].items() : [args[0]!];
    const limits = window(text.text, args);
    const expected = parts.map((value) => expectText(value, name).text);
    return limits !== null && expected.some((part) => test(limits.part, part));
  });
}

function search(find: (text: string, part: string) => number): Method<TracedText> {
  return positional([1, 3], (text, args, name) => {
    const part = expectText(args[0]!, name).text;
    const limits = window(text.text, args);
    const at = limits === null ? -1 : find(limits.part, part);
    if (at === -1 && name.endsWith("index")) throw valueError("a text was not found in another");
    return at === -1 ? -1 : codePointIndex(text.text, limits!.start + at);
  });
}

const word = new RegExp(`[^${whitespaceClass}]+`, "g");
// Line ends in Python; the pair counts as one.
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

/**
 * `split` and `rsplit`: the remainder beyond the limit keeps its white space, except on the side of
 * the split pieces.
 */
function splitting(isFromRight: boolean): Method<TracedText> {
  return named(["sep", "maxsplit"], (text, [given = null, limit = -1], name) => {
    const separator = given === null ? null : expectText(given, name).text;
    if (separator === "") throw valueError("a text was to be split at nothing");
    const most = expectIndex(limit);
    const pieces = separator === null ? wordsOf(text.text) : piecesBetween(text.text, separator, isFromRight);
    if (most >= 0 && most < pieces.length) {
      if (isFromRight) pieces.splice(0, pieces.length - most, [0, pieces[pieces.length - most - 1]![1]]);
      else pieces.splice(most, Infinity, [pieces[most]![0], text.text.length]);
    }
    return PythonList.of(pieces.map(([start, end]) => text.slice(start, end)));
  });
}

type Range = readonly [start: number, end: number];

function wordsOf(text: string): Range[] {
  return Array.from(text.matchAll(word), ({ 0: found, index }): Range => [index, index + found.length]);
}

function piecesBetween(text: string, separator: string, isFromRight: boolean): Range[] {
  const places = [...(isFromRight ? placesFromRight(text, separator) : placesOf(text, separator, Infinity))];
  return [...places, text.length].map((end, index) => [index === 0 ? 0 : places[index - 1]! + separator.length, end]);
}

function placesFromRight(text: string, part: string): number[] {
  const places: number[] = [];
  for (let end = text.length; end >= part.length;) {
    end = text.lastIndexOf(part, end - part.length);
    if (end === -1) break;
    places.push(end);
  }
  return places.reverse();
}

function partition(find: (text: string, separator: string) => number): Method<TracedText> {
  return positional([1, 1], (text, args, name) => {
    const separator = expectText(args[0]!, name).text;
    if (separator === "") throw valueError("a text was to be split at nothing");
    const at = find(text.text, separator);
    if (at === -1) {
      return new PythonTuple(name === "partition" ? [text, emptyText, emptyText] : [emptyText, emptyText, text]);
    }
    const end = at + separator.length;
    return new PythonTuple([text.slice(0, at), text.slice(at, end), text.slice(end)]);
  });
}

/** `text.strip(characters)`; None strips white space. */
export function strip(
  text: TracedText,
  characters: PythonValue = null,
  sides: "both" | "left" | "right" = "both",
): TracedText {
  if (characters !== null && !(characters instanceof TracedText)) {
    throw typeError(`strip takes a text or None, not a ${pythonTypeName(characters)}`);
  }
  const set = characters?.text;
  const end = sides === "left" ? text.text.length : pythonRstrip(text.text, set).length;
  const shortened = text.text.slice(0, end);
  const start = sides === "right" ? 0 : shortened.length - pythonLstrip(shortened, set).length;
  return start === 0 && end === text.text.length ? text : text.slice(start, end);
}

const stripping = (sides: "both" | "left" | "right"): Method<TracedText> =>
  positional([0, 1], (text, [characters]) => strip(text, characters, sides));

/** A method without arguments that maps the whole text. */
const mapped = (map: (text: string) => string): Method<TracedText> =>
  positional([0, 0], (text) => text.with(map(text.text)));

/** A method without arguments that tests the kind of characters. */
const question = (answer: (text: string) => boolean): Method<TracedText> =>
  positional([0, 0], (text) => answer(text.text));

const matches = (pattern: RegExp): Method<TracedText> => question((text) => pattern.test(text));

const textMethods = new Map(
  Object.entries<Method<TracedText>>({
    upper: mapped((text) => text.toUpperCase()),
    lower: mapped(pythonLower),
    casefold: mapped((text) => pythonLower(text).replaceAll("ß", "ss")),
    capitalize: mapped(capitalize),
    title: mapped(pythonTitle),
    swapcase: mapped(swapCase),
    isalpha: matches(/^\p{L}+$/u),
    isdecimal: matches(/^\p{Nd}+$/u),
    isdigit: matches(/^[\p{Nd}\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u2080-\u2089]+$/u),
    isnumeric: matches(/^\p{N}+$/u),
    isalnum: matches(/^[\p{L}\p{N}]+$/u),
    isspace: matches(new RegExp(`^[${whitespaceClass}]+$`)),
    // oxlint-disable-next-line no-control-regex
    isascii: matches(/^[\u0000-\u007f]*$/),
    isidentifier: matches(/^[\p{ID_Start}_][\p{ID_Continue}]*$/u),
    islower: question(isLower),
    isupper: question(isUpper),
    istitle: question(isTitle),
    startswith: edge((text, part) => text.startsWith(part)),
    endswith: edge((text, part) => text.endsWith(part)),
    find: search((text, part) => text.indexOf(part)),
    rfind: search((text, part) => text.lastIndexOf(part)),
    index: search((text, part) => text.indexOf(part)),
    rindex: search((text, part) => text.lastIndexOf(part)),
    count: positional([1, 3], (text, args, name) => {
      const part = expectText(args[0]!, name).text;
      const limits = window(text.text, args);
      if (limits === null) return 0;
      return part === "" ? codePointLength(limits.part) + 1 : limits.part.split(part).length - 1;
    }),
    split: splitting(false),
    rsplit: splitting(true),
    splitlines: named(["keepends"], (text, [keepEnds = false]) => PythonList.of(splitLines(text, isTruthy(keepEnds)))),
    partition: partition((text, separator) => text.indexOf(separator)),
    rpartition: partition((text, separator) => text.lastIndexOf(separator)),
    strip: stripping("both"),
    lstrip: stripping("left"),
    rstrip: stripping("right"),
    removeprefix: positional([1, 1], (text, args, name) => {
      const prefix = expectText(args[0]!, name).text;
      return text.text.startsWith(prefix) ? text.slice(prefix.length) : text;
    }),
    removesuffix: positional([1, 1], (text, args, name) => {
      const suffix = expectText(args[0]!, name).text;
      return text.text.endsWith(suffix) ? text.slice(0, text.text.length - suffix.length) : text;
    }),
    replace: positional([2, 3], (text, [old, replacement, count = -1], name) => {
      const inserted = expectText(replacement!, name);
      const safe = text.isMarkup ? escapeText(inserted) : inserted;
      return replaceText(text, expectText(old!, name), safe, expectIndex(count));
    }),
    join: positional([1, 1], (separator, [items]) => {
      const parts = itemsOf(items!).map((item) => {
        if (item instanceof TracedText) return separator.isMarkup ? escapeText(item) : item;
        throw typeError(`join takes texts, not a ${pythonTypeName(item)}`);
      });
      return joinStrings(separator, parts).asMarkup(separator.isMarkup);
    }),
    encode: () => {
      throw new PythonError("unsupported", "bytes are not supported");
    },
    center: filling("both"),
    ljust: filling("left"),
    rjust: filling("right"),
    zfill: positional([1, 1], (text, [digits]) => {
      const width = expectIndex(digits!);
      const signLength = /^[+-]/.test(text.text) ? 1 : 0;
      const filled = fillText(text.slice(signLength), width - signLength, { side: "right", fill: "0" });
      return concatStrings([text.slice(0, signLength), filled]).asMarkup(text.isMarkup);
    }),
    expandtabs: named(["tabsize"], (text, [size = 8]) => text.with(expandTabs(text.text, expectIndex(size)))),
  }),
);

type Sequence = PythonList | PythonTuple | PythonRange;

const isItem = (expected: PythonValue) => (item: PythonValue) => isSame(item, expected) || pythonEquals(item, expected);

const sequenceMethods = new Map(
  Object.entries<Method<Sequence>>({
    count: positional([1, 1], (sequence, [item]) => sequence.items().filter(isItem(item!)).length),
    index: positional([1, 3], (sequence, [item]) => {
      const found = sequence.items().findIndex(isItem(item!));
      if (found === -1) throw valueError("an item was not found in a list");
      return found;
    }),
  }),
);

const copyList: Method<PythonList> = positional([0, 0], (list) => PythonList.of(list.items()));

const view = (kind: DictView["kind"]): Method<PythonDict> => positional([0, 0], (dict) => new DictView(dict, kind));

const dictMethods = new Map(
  Object.entries<Method<PythonDict>>({
    keys: view("keys"),
    values: view("values"),
    items: view("items"),
    get: positional([1, 2], (dict, [key, otherwise = null]) => {
      const value = dict.get(key!);
      return value === undefined ? otherwise : value;
    }),
    copy: positional([0, 0], (dict) => PythonDict.of(dict.entries.values())),
  }),
);

/** The method of that name, bound to its object; `undefined` if there is none. */
export function methodOf(object: PythonValue, name: string): ((args: CallArguments) => PythonValue) | undefined {
  const bind = <Self>(self: Self, method: Method<Self> | undefined) =>
    method && ((args: CallArguments) => method(self, args, name));
  if (object instanceof TracedText) return bind(object, textMethods.get(name));
  if (object instanceof PythonDict) return bind(object, dictMethods.get(name));
  if (object instanceof PythonList && name === "copy") return bind(object, copyList);
  const isSequence = object instanceof PythonList || object instanceof PythonTuple || object instanceof PythonRange;
  return isSequence ? bind(object, sequenceMethods.get(name)) : undefined;
}
