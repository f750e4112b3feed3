// Python's three ways to format values: `format(value, spec)`, `text.format(...)` and `text %
// values`. Numbers are rounded from the exact binary value, ties to even.

import { PythonError, typeError, valueError } from "./errors.ts";
import { JsonFloat, pythonTypeName, type Int, numberOf, type PythonNumber } from "./json/value.ts";
import { checkTextLength, limitError } from "./limits.ts";
import { floatRepr, integerOf, roundFloat } from "./number-text.ts";
import { toFloat } from "./numbers.ts";
import { codePointLength, unitOffset } from "./strings.ts";
import { concatStrings, escapeText, type Origin, TracedText, unknownOrigin } from "./traced-text.ts";
import {
  type CallArguments,
  PythonDict,
  PythonList,
  pythonRepr,
  pythonStr,
  PythonTuple,
  type PythonValue,
  Undefined,
} from "./values.ts";

/** `str(value)` that keeps the origin of the text. */
export function textOf(value: PythonValue): TracedText {
  if (value instanceof TracedText) return value.asMarkup(false);
  return new TracedText(pythonStr(value), originOfValue(value));
}

/** Origin of a formatted value: unknown for scalars, which do not carry one. */
export function originOfValue(value: PythonValue): Origin {
  return value instanceof PythonList || value instanceof PythonDict ? value.origin : unknownOrigin;
}

type FormatSpec = {
  readonly fill: string;
  readonly align: string;
  readonly sign: string;
  readonly isAlternate: boolean;
  readonly width: number;
  readonly grouping: string;
  readonly precision: number | null;
  readonly type: string;
};

const pattern = /^(?:(.)?([<>=^]))?([-+ ]?)(#?)(0?)(\d*)([,_]?)(?:\.(\d+))?([bcdeEfFgGnosxX%]?)$/su;

/** Throws a "ValueError" for a spec that Python does not accept. */
function parseFormatSpec(spec: string): FormatSpec {
  const match = pattern.exec(spec);
  if (match === null) throw valueError(`"${spec}" is not a format`);
  const [, fill, align, sign, alternate, zero, width, grouping, precision, type] = match;
  return {
    fill: fill ?? (zero === "0" ? "0" : " "),
    align: align ?? (zero === "0" ? "=" : ""),
    sign: sign ?? "",
    isAlternate: alternate === "#",
    width: Number(width),
    grouping: grouping ?? "",
    precision: precision === undefined ? null : Number(precision),
    type: type ?? "",
  };
}

/** `format(value, spec)`. */
function formatValue(value: PythonValue, spec: string): TracedText {
  if (spec === "") return textOf(value);
  const parsed = parseFormatSpec(spec);
  if (value instanceof TracedText) return formatText(value, parsed);
  const number = numberOf(value);
  if (number instanceof JsonFloat) return formatFloat(number.value, parsed);
  if (number !== null) return formatInteger(number, parsed);
  throw typeError(`a ${pythonTypeName(value)} takes no format`);
}

function formatText(value: TracedText, spec: FormatSpec): TracedText {
  if (spec.type !== "" && spec.type !== "s") throw valueError(`the format "${spec.type}" does not take a text`);
  const cut = spec.precision === null ? value : value.slice(0, unitOffset(value.text, spec.precision));
  return pad(cut, "", { ...spec, align: spec.align === "" ? "<" : spec.align });
}

function formatInteger(value: Int, spec: FormatSpec): TracedText {
  const type = spec.type.toLowerCase();
  if (["e", "f", "g", "%"].includes(type)) return formatFloat(Number(value), spec);
  if (type === "c" && !(value >= 0 && value <= 0x10ffff)) {
    throw new PythonError("OverflowError", "%c arg not in range(0x110000)");
  }
  if (type === "c") return pad(new TracedText(String.fromCodePoint(Number(value)), unknownOrigin), "", spec);
  if (type === "s") throw valueError('the format "s" does not take an integer');
  const magnitude = BigInt(value) < 0n ? -BigInt(value) : BigInt(value);
  const digits = group(
    magnitude.toString({ b: 2, o: 8, x: 16 }[type] ?? 10),
    spec.grouping,
    type === "" || type === "d" ? 3 : 4,
  );
  const prefix = spec.isAlternate && type !== "d" && type !== "" ? `0${type}` : "";
  const shown = spec.type === "X" ? digits.toUpperCase() : digits;
  return pad(new TracedText(shown, unknownOrigin), signText(value < 0, spec) + prefix, spec);
}

function formatFloat(value: number, spec: FormatSpec): TracedText {
  const isNegative = value < 0 || Object.is(value, -0);
  const magnitude = Math.abs(value);
  const type = spec.type.toLowerCase();
  if (type !== "" && !"efgn%".includes(type)) throw valueError(`the format "${spec.type}" does not take a float`);
  let digits: string;
  if (!Number.isFinite(magnitude)) digits = Number.isNaN(magnitude) ? "nan" : "inf";
  else if (type === "" && spec.precision === null) digits = floatRepr(magnitude);
  else digits = floatDigits(magnitude, type === "" ? "g" : type, spec.precision ?? 6, spec.isAlternate);
  const [whole, ...rest] = digits.split(/(?=[.e%])/);
  const grouped = group(whole ?? "", spec.grouping, 3) + rest.join("");
  const shown = /[EFG]/.test(spec.type) ? grouped.toUpperCase() : grouped;
  return pad(new TracedText(shown, unknownOrigin), signText(isNegative, spec), spec);
}

function signText(isNegative: boolean, spec: FormatSpec): string {
  return isNegative ? "-" : spec.sign === "-" ? "" : spec.sign;
}

function group(digits: string, separator: string, size: number): string {
  if (separator === "") return digits;
  const first = digits.length % size || size;
  const groups = [digits.slice(0, first)];
  for (let at = first; at < digits.length; at += size) groups.push(digits.slice(at, at + size));
  return groups.join(separator);
}

/**
 * Pads a value: numbers are aligned right, text left; with "=" the fill goes between sign and
 * digits.
 */
function pad(body: TracedText, sign: string, spec: FormatSpec): TracedText {
  const signed = concatStrings([new TracedText(sign, unknownOrigin), body]);
  const missing = spec.width - codePointLength(signed.text);
  if (missing <= 0) return signed;
  checkTextLength(spec.width);
  const fill = (count: number): TracedText => new TracedText(spec.fill.repeat(count), unknownOrigin);
  switch (spec.align) {
    case "<":
      return concatStrings([signed, fill(missing)]);
    case "^":
      return concatStrings([fill(Math.floor(missing / 2)), signed, fill(Math.ceil(missing / 2))]);
    case "=":
      return concatStrings([new TracedText(sign, unknownOrigin), fill(missing), body]);
    default:
      return concatStrings([fill(missing), signed]);
  }
}

/** Maximum number of digits after the decimal point; JavaScript computes no more exactly. */
const maxPrecision = 100;

/** The digits of a non-negative finite float in format `f`, `e`, `g` (or `%`, which multiplies first). */
function floatDigits(value: number, type: string, precision: number, isAlternate = false): string {
  if (precision > maxPrecision) throw limitError(`it requests more than ${maxPrecision} digits`);
  switch (type) {
    case "%":
      return `${fixed(value * 100, precision)}%`;
    case "e":
      return exponential(value, precision);
    case "g":
      return general(value, precision === 0 ? 1 : precision, isAlternate);
    default:
      return fixed(value, precision);
  }
}

function fixed(value: number, precision: number): string {
  if (value >= 1e21) return BigInt(value).toString() + (precision > 0 ? `.${"0".repeat(precision)}` : "");
  return precision <= 22 ? roundFloat(value, precision).toFixed(precision) : value.toFixed(precision);
}

function exponential(value: number, precision: number): string {
  const [digits, exponent] = value.toExponential(precision).split("e") as [string, string];
  return `${digits}e${exponent[0]}${exponent.slice(1).padStart(2, "0")}`;
}

/** Significant digits, without trailing zeros, in exponent form for very small or large values. */
function general(value: number, precision: number, isAlternate: boolean): string {
  const exponent = value === 0 ? 0 : Number(value.toExponential(precision - 1).split("e")[1]);
  const isExponential = exponent < -4 || exponent >= precision;
  const text = isExponential ? exponential(value, precision - 1) : fixed(value, precision - 1 - exponent);
  if (isAlternate || !text.includes(".")) return text;
  return text.replace(/(?:\.|(?<!0))0+(?=e|$)/, "");
}

/**
 * A format in which every match of a pattern is replaced by the text of a value; `null` replaces it
 * by the last character of the match.
 */
function fillFormat(
  format: TracedText,
  fields: RegExp,
  fill: (match: readonly (string | undefined)[]) => { readonly value: PythonValue; readonly text: TracedText } | null,
): TracedText {
  const parts: TracedText[] = [];
  let offset = 0;
  for (const match of format.text.matchAll(fields)) {
    parts.push(format.slice(offset, match.index));
    offset = match.index + match[0].length;
    const filled = fill(match);
    if (filled === null) {
      parts.push(format.slice(offset - 1, offset));
    } else {
      const isSafe = filled.value instanceof TracedText && filled.value.isMarkup;
      parts.push(format.isMarkup ? escapeText(filled.text.asMarkup(isSafe)) : filled.text);
    }
  }
  parts.push(format.slice(offset));
  return concatStrings(parts).asMarkup(format.isMarkup);
}

/** A doubled brace, a field with its conversion and format, or a single brace. */
const field = /\{\{|\}\}|\{([^{}!:]*)(?:!([^{}:]*))?(?::((?:[^{}]|\{[^{}]*\})*))?\}|[{}]/g;

/** Resolves `.name` or `[key]` on a value. */
export type Step = (value: PythonValue, access: string) => PythonValue;

/** `format.format(*args, **kwargs)`. Throws an "IndexError" or a "KeyError" for a field without a value. */
export function formatBraces(format: TracedText, args: CallArguments, step: Step): TracedText {
  let automatic = 0;
  const fieldValue = (name: string): PythonValue => {
    const [first = "", ...rest] = name.split(/(?=[.[])/);
    const key = first === "" ? String(automatic++) : first;
    const isNumbered = /^\d+$/.test(key);
    const start = isNumbered ? args.positional[Number(key)] : args.named.get(key);
    if (start !== undefined) return rest.reduce(step, start);
    throw new PythonError(isNumbered ? "IndexError" : "KeyError", `a format has no value for the field "${key}"`);
  };
  return fillFormat(format, field, ([whole, name, conversion, spec = ""]) => {
    if (name === undefined) {
      if (whole!.length === 1) throw valueError("a format has a brace that stands alone");
      return null;
    }
    const value = fieldValue(name);
    const inner = spec.replace(/\{([^{}]*)\}/g, (_, nested: string) => textOf(fieldValue(nested)).text);
    return { value, text: formatField(value, conversion, inner) };
  });
}

/** `format.format_map(values)`. */
export function formatMap(format: TracedText, values: PythonValue, step: Step): TracedText {
  const named = new Map<string, PythonValue>();
  if (values instanceof PythonDict) {
    for (const { key, value } of values.entries.values()) if (key instanceof TracedText) named.set(key.text, value);
  }
  return formatBraces(format, { positional: [], named }, step);
}

function formatField(value: PythonValue, conversion: string | undefined, spec: string): TracedText {
  switch (conversion) {
    case undefined:
      return value instanceof Undefined && spec === "" ? textOf(value) : formatValue(value, spec);
    case "s":
      return formatValue(textOf(value), spec);
    case "r":
    case "a":
      return formatValue(reprText(value), spec);
    default:
      throw valueError(`"${conversion}" is not a conversion of a format`);
  }
}

const reprText = (value: PythonValue): TracedText => new TracedText(pythonRepr(value), unknownOrigin);

const conversion = /%(?:\(([^)]{0,200})\))?([#0\- +]*)(\*|\d+)?(?:\.(\*|\d*))?[hlL]?(.)?/gs;

/** Throws a "TypeError" for too few or too many values, or one of the wrong type. */
export function formatPercent(format: TracedText, values: PythonValue): TracedText {
  const isTuple = values instanceof PythonTuple;
  const queue = isTuple ? [...values.items()] : [values];
  let isKeyed = false;
  const take = (): PythonValue => {
    const next = queue.shift();
    if (next === undefined) throw typeError("a format requires more values than it is given");
    return next;
  };
  const asNumber = (text: string | undefined): number => Number(text === "*" ? take() : (text ?? 0));
  const filled = fillFormat(format, conversion, ([, key, flags = "", width, precision, type]) => {
    if (type === "%") return null;
    if (type === undefined) throw valueError("a format ends within a conversion");
    const spec = specOf(flags, asNumber(width), precision === undefined ? null : asNumber(precision), type);
    isKeyed ||= key !== undefined;
    const value = key === undefined ? take() : valueOf(values, key);
    return { value, text: convert(value, spec) };
  });
  // Any value with keys counts as a mapping, whose entries may all remain unused.
  const hasKeys = values instanceof PythonDict || values instanceof PythonList || values instanceof Undefined;
  if (queue.length > 0 && (isTuple || !(isKeyed || hasKeys))) throw typeError("not all values are used by the format");
  return filled;
}

function valueOf(values: PythonValue, key: string): PythonValue {
  if (!(values instanceof PythonDict)) throw typeError("a format with keys needs a dict");
  const value = values.get(key);
  if (value === undefined) throw new PythonError("KeyError", `a format has no value for the key "${key}"`);
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

function convert(value: PythonValue, spec: FormatSpec): TracedText {
  const asText = (text: TracedText): TracedText =>
    formatText(text, { ...spec, fill: " ", align: spec.align === "=" ? ">" : spec.align, type: "s" });
  switch (spec.type) {
    case "s":
      return asText(textOf(value));
    case "r":
    case "a":
      return asText(reprText(value));
    case "c":
      if (!(value instanceof TracedText)) return formatInteger(integerIn(value), spec);
      if (codePointLength(value.text) !== 1) throw typeError("%c takes one character");
      return formatText(value, { ...spec, type: "s" });
    case "d":
    case "i":
    case "u":
      return formatInteger(integerIn(value), { ...spec, type: "d" });
    case "x":
    case "X":
    case "o":
      return formatInteger(integerIn(value), spec);
    case "e":
    case "E":
    case "f":
    case "F":
    case "g":
    case "G":
      return formatFloat(toFloat(numeric(value)), { ...spec, precision: spec.precision ?? 6 });
    default:
      throw valueError(`"${spec.type}" is not a conversion of a format`);
  }
}

function numeric(value: PythonValue): PythonNumber {
  if (value instanceof Undefined) throw value.error;
  const number = numberOf(value);
  if (number === null) throw typeError(`a real number is required, not ${pythonTypeName(value)}`);
  return number;
}

function integerIn(value: PythonValue): Int {
  const number = numeric(value);
  return number instanceof JsonFloat ? integerOf(number.value) : number;
}
