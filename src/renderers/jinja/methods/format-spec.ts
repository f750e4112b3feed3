// Python's `format(value, spec)` for texts and numbers: fill, alignment, sign, width, grouping, precision, type.

import { JsonFloat } from "../../../python-semantics/json/index.ts";
import { floatRepr } from "../../../python-semantics/index.ts";
import { checkTextLength } from "../limits.ts";
import { truncateFloat } from "../values/number-text.ts";
import { codePointLength, unitOffset } from "../values/code-points.ts";
import { typeError, valueError } from "../values/raise.ts";
import { concatTexts, TracedText, unknownOrigin } from "../values/traced-text.ts";
import { typeNameOf } from "../values/type-name.ts";
import type { Integer, Value } from "../values/value.ts";
import { textOf } from "../values/value-text.ts";
import { floatDigits, integerDigits } from "./format-number.ts";

export type FormatSpec = {
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

/** Throws a "ValueError" for a spec that Python does not know. */
export function parseFormatSpec(spec: string): FormatSpec {
  const match = pattern.exec(spec);
  if (match === null) throw valueError(`"${spec}" is no format`);
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
export function formatValue(value: Value, spec: string): TracedText {
  if (spec === "") return textOf(value);
  const parsed = parseFormatSpec(spec);
  if (value instanceof TracedText) return formatText(value, parsed);
  if (value instanceof JsonFloat) return formatFloat(value.value, parsed);
  if (typeof value === "number" || typeof value === "bigint" || typeof value === "boolean") {
    return formatInteger(typeof value === "boolean" ? Number(value) : value, parsed);
  }
  throw typeError(`a ${typeNameOf(value)} takes no format`);
}

export function formatText(value: TracedText, spec: FormatSpec): TracedText {
  if (spec.type !== "" && spec.type !== "s") throw valueError(`the format "${spec.type}" does not take a text`);
  const cut = spec.precision === null ? value : value.slice(0, unitOffset(value.text, spec.precision));
  return pad(cut, "", { ...spec, align: spec.align === "" ? "<" : spec.align });
}

export function formatInteger(value: Integer, spec: FormatSpec): TracedText {
  const type = spec.type.toLowerCase();
  if (["e", "f", "g", "%"].includes(type)) return formatFloat(Number(value), spec);
  if (type === "c") return pad(new TracedText(String.fromCodePoint(Number(value)), unknownOrigin), "", spec);
  if (type === "s") throw valueError('the format "s" does not take an integer');
  const magnitude = BigInt(value) < 0n ? -BigInt(value) : BigInt(value);
  const digits = group(integerDigits(magnitude, type), spec.grouping, type === "" || type === "d" ? 3 : 4);
  const prefix = spec.isAlternate && type !== "d" && type !== "" ? `0${type}` : "";
  const shown = spec.type === "X" ? digits.toUpperCase() : digits;
  return pad(new TracedText(shown, unknownOrigin), signText(value < 0, spec) + prefix, spec);
}

export function formatFloat(value: number, spec: FormatSpec): TracedText {
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

/** `int(value)` for the formats of `%` that take floats as integers. */
export function integerOf(value: Integer | JsonFloat): Integer {
  return value instanceof JsonFloat ? truncateFloat(value.value) : value;
}

function signText(isNegative: boolean, spec: FormatSpec): string {
  return isNegative ? "-" : spec.sign === "-" ? "" : spec.sign;
}

function group(digits: string, separator: string, size: number): string {
  if (separator === "") return digits;
  return digits.replace(new RegExp(`(?<=\\w)(?=(?:\\w{${size}})+$)`, "g"), separator);
}

/** Numbers stand right, texts left; with "=" the fill goes between sign and digits. */
function pad(body: TracedText, sign: string, spec: FormatSpec): TracedText {
  const signed = concatTexts([new TracedText(sign, unknownOrigin), body]);
  const missing = spec.width - codePointLength(signed.text);
  if (missing <= 0) return signed;
  checkTextLength(spec.width);
  const fill = (count: number): TracedText => new TracedText(spec.fill.repeat(count), unknownOrigin);
  switch (spec.align) {
    case "<":
      return concatTexts([signed, fill(missing)]);
    case "^":
      return concatTexts([fill(Math.floor(missing / 2)), signed, fill(Math.ceil(missing / 2))]);
    case "=":
      return concatTexts([new TracedText(sign, unknownOrigin), fill(missing), body]);
    default:
      return concatTexts([fill(missing), signed]);
  }
}
