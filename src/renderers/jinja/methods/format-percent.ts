// Python's `text % values`, the printf way.

import { codePointLength } from "../values/code-points.ts";
import { escapeText } from "../values/escape.ts";
import type { JsonFloat } from "../../../python-semantics/json/index.ts";
import { checkTextLength } from "../limits.ts";
import { toFloat } from "../operations/division.ts";
import { numberOf } from "../values/number.ts";
import { PythonDict, PythonList, PythonTuple } from "../values/containers.ts";
import { pythonError, typeError, undefinedError, valueError } from "../values/raise.ts";
import { concatTexts, TracedText, unknownOrigin } from "../values/traced-text.ts";
import { typeNameOf } from "../values/type-name.ts";
import { type Integer, Undefined, type Value } from "../values/value.ts";
import { reprOf, textOf } from "../values/value-text.ts";
import { formatFloat, formatInteger, formatText, type FormatSpec, integerOf } from "./format-spec.ts";

const conversion = /%(?:\(([^)]*)\))?([#0\- +]*)(\*|\d+)?(?:\.(\*|\d*))?[hlL]?(.)?/gs;

/** Throws a "TypeError" for too few or too many values, or one of the wrong type. */
export function formatPercent(format: TracedText, values: Value): TracedText {
  const isTuple = values instanceof PythonTuple;
  const queue = isTuple ? [...values.items] : [values];
  const parts: TracedText[] = [];
  let offset = 0;
  let isKeyed = false;
  const take = (): Value => {
    const next = queue.shift();
    if (next === undefined) throw typeError("a format wants more values than it is given");
    return next;
  };
  for (const match of format.text.matchAll(conversion)) {
    const [whole, key, flags = "", width, precision, type] = match;
    parts.push(format.slice(offset, match.index));
    offset = match.index + whole.length;
    if (type === "%") {
      parts.push(format.slice(offset - 1, offset));
      continue;
    }
    if (type === undefined) throw valueError("a format ends within a conversion");
    const asNumber = (text: string | undefined): number => Number(text === "*" ? take() : (text ?? 0));
    const spec = specOf(flags, asNumber(width), precision === undefined ? null : asNumber(precision), type);
    isKeyed ||= key !== undefined;
    const value = key === undefined ? take() : valueOf(values, key);
    const text = convert(value, spec, type);
    parts.push(format.isMarkup ? escapeText(text.asMarkup(isMarkup(value))) : text);
  }
  // What has keys counts as a mapping, and of that nothing need be used.
  const hasKeys = values instanceof PythonDict || values instanceof PythonList || values instanceof Undefined;
  if (queue.length > 0 && (isTuple || !(isKeyed || hasKeys))) throw typeError("not all values are used by the format");
  parts.push(format.slice(offset));
  return concatTexts(parts).asMarkup(format.isMarkup);
}

function isMarkup(value: Value): boolean {
  return value instanceof TracedText && value.isMarkup;
}

function valueOf(values: Value, key: string): Value {
  if (!(values instanceof PythonDict)) throw typeError("a format with keys wants a dict");
  const value = values.get(key);
  if (value === undefined) throw pythonError("KeyError", `a format asks for the missing key "${key}"`);
  return value;
}

function specOf(flags: string, width: number, precision: number | null, type: string): FormatSpec {
  checkTextLength(width);
  const isLeft = flags.includes("-");
  const isZero = flags.includes("0") && !isLeft;
  return {
    fill: isZero ? "0" : " ",
    align: isLeft ? "<" : isZero ? "=" : ">",
    sign: flags.includes("+") ? "+" : flags.includes(" ") ? " " : "",
    isAlternate: flags.includes("#"),
    width,
    grouping: "",
    precision,
    type,
  };
}

function convert(value: Value, spec: FormatSpec, type: string): TracedText {
  switch (type) {
    case "s":
      return formatText(textOf(value), { ...spec, fill: " ", align: spec.align === "<" ? "<" : ">" });
    case "r":
    case "a":
      return formatText(new TracedText(reprOf(value), unknownOrigin), { ...spec, fill: " ", type: "s" });
    case "c":
      if (value instanceof TracedText && codePointLength(value.text) !== 1) throw typeError("%c wants one character");
      return value instanceof TracedText
        ? formatText(value, { ...spec, type: "s" })
        : formatInteger(integerOf(numeric(value)), spec);
    case "d":
    case "i":
    case "u":
      return formatInteger(integerOf(numeric(value)), { ...spec, type: "d" });
    case "x":
    case "X":
    case "o":
      return formatInteger(integerOf(numeric(value)), spec);
    case "e":
    case "E":
    case "f":
    case "F":
    case "g":
    case "G":
      return formatFloat(toFloat(numeric(value)), { ...spec, precision: spec.precision ?? 6 });
    default:
      throw valueError(`"${type}" is no conversion of a format`);
  }
}

function numeric(value: Value): Integer | JsonFloat {
  const number = numberOf(value);
  if (value instanceof Undefined) throw undefinedError(value);
  if (number === null) throw typeError(`a format wants a number, not a ${typeNameOf(value)}`);
  return number;
}
