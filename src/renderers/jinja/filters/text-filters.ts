// Filters that make text of a value.

import { pythonLower } from "../../../python-semantics/index.ts";
import { bindArguments, expectIndex, expectText } from "../operations/bind-arguments.ts";
import { calculate } from "../operations/arithmetic.ts";
import { checkTextLength } from "../limits.ts";
import { formatPercent } from "../methods/format-percent.ts";
import { fillText, joinTexts, replaceText } from "../methods/text-build.ts";
import { capitalize } from "../methods/text-case.ts";
import { splitLines } from "../methods/text-split.ts";
import { strip } from "../methods/text-strip.ts";
import { codePointLength, unitOffset } from "../values/code-points.ts";
import { PythonDict, PythonList, PythonTuple } from "../values/containers.ts";
import { escapeText } from "../values/escape.ts";
import { isTruthy, lengthOf } from "../values/iteration.ts";
import { pythonError } from "../values/raise.ts";
import { concatTexts, templateText, TracedText } from "../values/traced-text.ts";
import type { CallArguments, Value } from "../values/value.ts";
import { softTextOf, textOf } from "../values/value-text.ts";
import { whitespaceClass } from "../values/whitespace.ts";
import type { Filter } from "./filter.ts";

function mapped(name: string, map: (text: TracedText) => TracedText): readonly [string, Filter] {
  return [
    name,
    (value, args) => {
      bindArguments(name, args, []);
      return map(softTextOf(value));
    },
  ];
}

const wordStart = new RegExp(`([-${whitespaceClass}({[<]+)`);

/** Jinja's own title case: words begin after white space, hyphens and opening brackets. */
function titleText(text: string): string {
  return text
    .split(wordStart)
    .map((word) => {
      const [first = ""] = word;
      return first.toUpperCase() + pythonLower(word.slice(first.length));
    })
    .join("");
}

const trim: Filter = (value, args) => {
  const [characters = null] = bindArguments("trim", args, ["chars"]);
  return strip(softTextOf(value), characters);
};

const replace: Filter = (value, args) => {
  const [old, replacement, count = null] = bindArguments("replace", args, ["old", "new", "count"], 2);
  const most = count === null ? -1 : expectIndex(count, "replace");
  return replaceText(textOf(value), textOf(old!), textOf(replacement!), most);
};

/** Lines after the first, and only those that hold something, unless asked otherwise. */
const indent: Filter = (value, args) => {
  const [width = 4, first = false, blank = false] = bindArguments("indent", args, ["width", "first", "blank"]);
  // Jinja adds a line end first, which a list takes and then is no text.
  if (value instanceof PythonList) throw pythonError("AttributeError", "a list has no lines");
  const text = calculate("+", value, templateText("\n")) as TracedText;
  const isText = width instanceof TracedText;
  if (!isText) checkTextLength(expectIndex(width, "indent"));
  const indentation = isText ? width : templateText(" ".repeat(Math.max(0, expectIndex(width, "indent"))));
  const lines = splitLines(text).map((line, index) => {
    const isIndented = index === 0 ? isTruthy(first) : isTruthy(blank) || line.text !== "";
    return isIndented ? concatTexts([indentation, line]) : line;
  });
  return joinTexts(templateText("\n"), lines).asMarkup(text.isMarkup);
};

const truncate: Filter = (value, args) => {
  const bound = bindArguments("truncate", args, ["length", "killwords", "end", "leeway"]);
  const [length = 255, killWords = false, end = templateText("..."), leeway = null] = bound;
  const ending = expectText(end, "truncate");
  const kept = expectIndex(length, "truncate") - codePointLength(ending.text);
  const tolerance = leeway === null ? 5 : expectIndex(leeway, "truncate");
  if (kept < 0 || tolerance < 0) throw pythonError("AssertionError", "a text is truncated to less than its ending");
  if (lengthOf(value) <= expectIndex(length, "truncate") + tolerance) return value;
  const text = expectText(value, "truncate");
  const cut = text.slice(0, unitOffset(text.text, kept));
  const lastSpace = cut.text.lastIndexOf(" ");
  const whole = isTruthy(killWords) || lastSpace === -1 ? cut : cut.slice(0, lastSpace);
  return concatTexts([whole, ending]);
};

const center: Filter = (value, args) => {
  const [width = 80] = bindArguments("center", args, ["width"]);
  return fillText(softTextOf(value), expectIndex(width, "center"), { side: "both", fill: " " });
};

const format: Filter = (value, args) => {
  const { positional, named } = args;
  if (positional.length > 0 && named.size > 0) {
    throw pythonError("FilterArgumentError", "format takes positional or keyword arguments, not both");
  }
  return formatPercent(softTextOf(value), named.size > 0 ? namedDict(args) : new PythonTuple(positional));
};

function namedDict(args: CallArguments): PythonDict {
  return PythonDict.of(Array.from(args.named, ([key, value]) => ({ key: templateText(key), value })));
}

export const textFilters: readonly (readonly [string, Filter])[] = [
  mapped("upper", (text) => text.with(text.text.toUpperCase())),
  mapped("lower", (text) => text.with(pythonLower(text.text))),
  mapped("capitalize", (text) => text.with(capitalize(text.text))),
  mapped("title", (text) => text.with(titleText(text.text)).asMarkup(false)),
  mapped("string", (text) => text),
  mapped("e", escapeText),
  mapped("escape", escapeText),
  mapped("safe", (text) => text.asMarkup(true)),
  mapped("forceescape", (text) => escapeText(text.asMarkup(false))),
  ["trim", trim],
  ["replace", replace],
  ["indent", indent],
  ["truncate", truncate],
  ["center", center],
  ["format", format],
  ["wordcount", (value): Value => softTextOf(value).text.match(/[\p{L}\p{N}_]+/gu)?.length ?? 0],
];
