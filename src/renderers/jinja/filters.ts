// Every filter of Jinja that is implemented, by name, and the names of the others.

import {
  bindArguments,
  calculate,
  calculateNumbers,
  type CallArguments,
  capitalize,
  checkTextLength,
  codePointLength,
  concatStrings,
  escapeText,
  expectIndex,
  expectText,
  fillText,
  formatPercent,
  integerOf,
  isTruthy,
  iteratorOf,
  joinStrings,
  lengthOf,
  limitError,
  numberOf,
  originOf,
  originOfValue,
  orUndefined,
  PythonDict,
  PythonError,
  pythonFloat,
  pythonInt,
  PythonIterator,
  PythonList,
  pythonLower,
  pythonMultiply,
  pythonNegate,
  pythonRound,
  PythonTuple,
  pythonTypeName,
  type PythonValue,
  replaceText,
  splitLines,
  strip,
  templateText,
  textOf,
  toFloat,
  TracedText,
  typeError,
  Undefined,
  unitOffset,
  unlessRaised,
  whitespaceClass,
} from "../../python-semantics/index.ts";
import { dumpJson, JsonFloat } from "../../python-semantics/json/index.ts";
import { pythonAttribute } from "./lookup.ts";
import {
  attributeGetter,
  type BoundFilter,
  type Filter,
  type FilterRow,
  type Getter,
  sequenceFilters,
} from "./sequence-filters.ts";
import { runTest } from "./tests.ts";

/** `soft_str(value)`: like `str`, but Markup stays Markup. */
function softTextOf(value: PythonValue): TracedText {
  return value instanceof TracedText ? value : textOf(value);
}

function mapped(name: string, map: (text: TracedText) => TracedText): FilterRow {
  return [name, [], (value) => map(softTextOf(value))];
}

const wordStart = new RegExp(`([-${whitespaceClass}({[<]+)`);

/** Jinja's own title case: words begin after white space, hyphens and opening brackets. */
function titleText(text: string): string {
  const words = text.split(wordStart).map(([first = "", ...rest]) => first.toUpperCase() + pythonLower(rest.join("")));
  return words.join("");
}

/**
 * Indents the lines after the first, and only lines that are not blank, unless requested otherwise.
 */
const indent: BoundFilter = (value, width = 4, first = false, isBlankIncluded = false) => {
  // Jinja first adds a line end, which a list accepts, but the result is not a text.
  if (value instanceof PythonList) throw new PythonError("AttributeError", "a list has no lines");
  const text = calculate("+", value, templateText("\n")) as TracedText;
  const isText = width instanceof TracedText;
  if (!isText) checkTextLength(expectIndex(width));
  const indentation = isText ? width : templateText(" ".repeat(Math.max(0, expectIndex(width))));
  const lines = splitLines(text).map((line, index) => {
    const isIndented = index === 0 ? isTruthy(first) : isTruthy(isBlankIncluded) || line.text !== "";
    return isIndented ? concatStrings([indentation, line]) : line;
  });
  return joinStrings(templateText("\n"), lines).asMarkup(text.isMarkup);
};

const truncate: BoundFilter = (value, length = 255, killWords = false, end = templateText("..."), leeway = 5) => {
  const ending = expectText(end, "truncate");
  const most = expectIndex(length) - codePointLength(ending.text);
  const tolerance = leeway === null ? 5 : expectIndex(leeway);
  if (most < 0 || tolerance < 0) throw new PythonError("AssertionError", "a text is truncated to less than its ending");
  if (lengthOf(value) <= expectIndex(length) + tolerance) return value;
  const text = expectText(value, "truncate");
  const cut = text.slice(0, unitOffset(text.text, most));
  const lastSpace = cut.text.lastIndexOf(" ");
  const whole = isTruthy(killWords) || lastSpace === -1 ? cut : cut.slice(0, lastSpace);
  return concatStrings([whole, ending]);
};

const format: Filter = (value, { positional, named }) => {
  if (positional.length > 0 && named.size > 0) {
    throw new PythonError("FilterArgumentError", "format takes positional or keyword arguments, not both");
  }
  return formatPercent(softTextOf(value), named.size > 0 ? PythonDict.named(named) : new PythonTuple(positional));
};

/** Never fails on a text: a text that is not a number gives the default. */
const integer: BoundFilter = (value, otherwise = 0, base = 10) => {
  if (value instanceof Undefined) throw value.error;
  if (value instanceof TracedText) {
    const { text } = value;
    const whole = unlessRaised(["ValueError"], () => pythonInt(text, expectIndex(base)));
    if (whole !== undefined) return whole;
    return unlessRaised(["ValueError", "OverflowError"], () => integerOf(pythonFloat(text).value)) ?? otherwise;
  }
  const number = numberOf(value);
  if (number === null || (number instanceof JsonFloat && Number.isNaN(number.value))) return otherwise;
  return number instanceof JsonFloat ? integerOf(number.value) : number;
};

const float: BoundFilter = (value, otherwise = new JsonFloat(0)) => {
  if (value instanceof Undefined) throw value.error;
  if (value instanceof TracedText) return unlessRaised(["ValueError"], () => pythonFloat(value.text)) ?? otherwise;
  const number = numberOf(value);
  return number === null ? otherwise : new JsonFloat(toFloat(number));
};

const absolute: BoundFilter = (value) => {
  const number = numberOf(value);
  if (number === null) throw typeError(`a ${pythonTypeName(value)} has no absolute value`);
  if (number instanceof JsonFloat) return new JsonFloat(Math.abs(number.value));
  return number < 0 ? pythonNegate(number) : number;
};

/** Ties round to even, as Python's `round` does; an integer stays one. */
const round: BoundFilter = (value, precision = 0, method = null) => {
  const how = method === null ? "common" : method instanceof TracedText ? method.text : "";
  if (how !== "common" && how !== "ceil" && how !== "floor") {
    throw new PythonError("FilterArgumentError", "round knows the methods common, ceil and floor");
  }
  if (value instanceof Undefined) {
    // `round(undefined)` finds no method; the other two multiply first, which raises.
    throw how === "common" ? typeError("an undefined value cannot be rounded") : value.error;
  }
  const number = numberOf(value);
  if (number === null) throw typeError(`a ${pythonTypeName(value)} cannot be rounded`);
  const digits = expectIndex(precision);
  if (digits < 0 || digits > 22) throw limitError(`it rounds to ${digits} digits`);
  if (how === "common") return pythonRound(number, digits);
  const scale = 10 ** digits;
  const scaled: PythonValue = pythonMultiply(number, scale);
  const whole = scaled instanceof JsonFloat ? integerOf(Math[how](scaled.value)) : scaled;
  return calculateNumbers("/", [whole, scale]);
};

const toJson: BoundFilter = (value, ensureAscii = false, indentBy = null, separators = null, sortKeys = false) => {
  const text = dumpJson(value, {
    ensureAscii: isTruthy(ensureAscii),
    sortKeys: isTruthy(sortKeys),
    ...(indentBy === null ? {} : { indent: indentWidth(indentBy) }),
    ...(separators === null ? {} : { separators: separatorPair(separators) }),
  });
  return new TracedText(text, value instanceof TracedText ? originOf(value) : originOfValue(value));
};

function indentWidth(value: PythonValue): number {
  if (!(value instanceof TracedText)) return Math.max(0, expectIndex(value));
  if (/^ *$/.test(value.text)) return value.text.length;
  throw limitError("it indents JSON with something other than spaces");
}

function separatorPair(separators: PythonValue): readonly [string, string] {
  const items = separators instanceof PythonTuple || separators instanceof PythonList ? separators.items() : [];
  const [item, key] = items;
  if (items.length === 2 && item instanceof TracedText && key instanceof TracedText) return [item.text, key.text];
  throw typeError("tojson takes two strings as separators");
}

/** Starts when the first item is read; a false value has no items and is not inspected further. */
function lazily(value: PythonValue, start: (source: PythonIterator) => () => PythonValue | undefined): PythonIterator {
  let next: (() => PythonValue | undefined) | null = null;
  return new PythonIterator(() => {
    next ??= isTruthy(value) ? start(iteratorOf(value)) : () => undefined;
    return next();
  });
}

/** `map(attribute=...)` or `map("filter", ...)`. */
const map: Filter = (value, args) =>
  lazily(value, (source) => {
    const change = mapping(args);
    return () => {
      const item = source.next();
      return item === undefined ? undefined : change(item);
    };
  });

function mapping(args: CallArguments): Getter {
  const [name, ...rest] = args.positional;
  if (name === undefined) {
    if (!args.named.has("attribute"))
      throw new PythonError("FilterArgumentError", "map takes a filter or an attribute");
    const [path, otherwise = null] = bindArguments("map", args, ["attribute", "default"]);
    return attributeGetter(path!, otherwise);
  }
  const filter = name instanceof TracedText ? filters.get(name.text) : undefined;
  if (filter === undefined) throw unknownName("filter", name);
  return (item) => filter(item, { positional: rest, named: args.named });
}

function selecting(name: string, isKept: boolean, byAttribute: boolean): FilterRow {
  const select: Filter = (value, args) =>
    lazily(value, (source) => {
      const isChosen = choosing(args, byAttribute);
      return () => {
        for (let item = source.next(); item !== undefined; item = source.next()) {
          if (isChosen(item) === isKept) return item;
        }
        return undefined;
      };
    });
  return [name, select];
}

function choosing(args: CallArguments, byAttribute: boolean): (item: PythonValue) => boolean {
  const [attribute, name, ...rest] = byAttribute ? args.positional : [null, ...args.positional];
  if (attribute === undefined) throw new PythonError("FilterArgumentError", "an attribute to select by is missing");
  const get = attributeGetter(attribute);
  if (name === undefined) return (item) => isTruthy(get(item));
  if (!(name instanceof TracedText)) throw unknownName("test", name);
  return (item) => runTest(name.text, get(item), { positional: rest, named: args.named });
}

function unknownName(what: string, name: PythonValue): Error {
  if (name instanceof Undefined) return name.error;
  return new PythonError("TemplateRuntimeError", `there is no such ${what}`);
}

const attribute: BoundFilter = (value, name) => {
  const key = expectText(name, "attr").text;
  if (value instanceof Undefined) throw value.error;
  return orUndefined(pythonAttribute(value, key), `there is no attribute "${key}"`);
};

const rows: readonly FilterRow[] = [
  mapped("upper", (text) => text.with(text.text.toUpperCase())),
  mapped("lower", (text) => text.with(pythonLower(text.text))),
  mapped("capitalize", (text) => text.with(capitalize(text.text))),
  mapped("title", (text) => text.with(titleText(text.text)).asMarkup(false)),
  mapped("string", (text) => text),
  mapped("e", escapeText),
  mapped("escape", escapeText),
  mapped("safe", (text) => text.asMarkup(true)),
  mapped("forceescape", (text) => escapeText(text.asMarkup(false))),
  ["trim", ["chars?"], (value, characters = null) => strip(softTextOf(value), characters)],
  [
    "replace",
    ["old", "new", "count?"],
    (value, old, replacement, count = null) =>
      replaceText(textOf(value), textOf(old), textOf(replacement), count === null ? -1 : expectIndex(count)),
  ],
  ["indent", ["width?", "first?", "blank?"], indent],
  ["truncate", ["length?", "killwords?", "end?", "leeway?"], truncate],
  [
    "center",
    ["width?"],
    (value, width = 80) => fillText(softTextOf(value), expectIndex(width), { side: "both", fill: " " }),
  ],
  ["format", format],
  ["wordcount", (value) => softTextOf(value).text.match(/[\p{L}\p{N}_]+/gu)?.length ?? 0],
  ["int", ["default?", "base?"], integer],
  ["float", ["default?"], float],
  ["abs", [], absolute],
  ["round", ["precision?", "method?"], round],
  selecting("select", true, false),
  selecting("reject", false, false),
  selecting("selectattr", true, true),
  selecting("rejectattr", false, true),
  ["map", map],
  ["tojson", ["ensure_ascii?", "indent?", "separators?", "sort_keys?"], toJson],
  ["attr", ["name"], attribute],
  ...sequenceFilters,
];

export const filters: ReadonlyMap<string, Filter> = new Map(rows.map((row) => [row[0], filterOf(row)]));

/** A row without parameters accepts any arguments. */
function filterOf(row: FilterRow): Filter {
  if (row.length === 2) return row[1];
  const [name, parameters, apply] = row;
  const names = parameters.map((parameter) => parameter.replace("?", ""));
  const required = parameters.filter((parameter) => !parameter.endsWith("?")).length;
  // Omitted arguments are `undefined`, which the defaults of `apply` replace.
  return (value, args) => apply(value, ...(bindArguments(name, args, names, required) as readonly PythonValue[]));
}

/**
 * Filters of Jinja that are not implemented: made for web pages, or random. A template that names
 * one is refused.
 */
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
