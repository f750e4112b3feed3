// The value of a number as Python writes it. The parser's token is laxer than Python (`1__0`, `1_`, `007`), so what it lets
// through is judged here.

import type { SyntaxNode } from "@lezer/common";

import { JsonFloat } from "../../../../python-semantics/json/index.ts";
import { problemAt, quote, textOf, type PythonSource } from "./python-source.ts";

/** CPython converts no longer integers (`sys.get_int_max_str_digits()`). */
const maxDigits = 4300;

export type PythonNumber = number | bigint | JsonFloat;

/** Throws a `ConfigurationError` for complex numbers and for what Python refuses. */
export function readNumber(source: PythonSource, node: SyntaxNode): PythonNumber {
  const text = textOf(source, node).toLowerCase();
  const refuse = (problem: string): Error => problemAt(source, node, `${problem} (${quote(source, node)})`);
  const radix = text.startsWith("0x") ? 16 : text.startsWith("0o") ? 8 : text.startsWith("0b") ? 2 : 10;
  if (radix === 10 && text.endsWith("j")) throw refuse("a complex number has no place in the data");
  // An underscore stands between two digits, or behind the mark of the base.
  const digitsText = radix === 10 ? text : text.slice(2);
  const groups = (radix === 10 ? digitsText : digitsText.slice(digitsText.startsWith("_") ? 1 : 0)).split("_");
  const isDigit = (character: string | undefined): boolean =>
    character !== undefined && character !== "" && !Number.isNaN(Number.parseInt(character, radix));
  for (const [index, group] of groups.entries()) {
    const startsWell = index === 0 || isDigit(group[0]);
    const endsWell = index === groups.length - 1 || isDigit(group.at(-1));
    if (group === "" || !startsWell || !endsWell) throw refuse("Python knows no such number");
  }
  const plain = text.replaceAll("_", "");
  const isFloat = radix === 10 && [".", "e"].some((mark) => plain.includes(mark));
  if (isFloat) {
    const value = Number(plain);
    if (Number.isNaN(value)) throw refuse("Python knows no such number");
    return new JsonFloat(value);
  }
  if (radix === 10 && plain.length > maxDigits) throw refuse(`an integer has more than ${maxDigits} digits`);
  if (plain.length > 1 && radix === 10 && plain.startsWith("0") && plain.replaceAll("0", "") !== "") {
    throw refuse("an integer starts with a zero");
  }
  return narrow(BigInt(plain));
}

/** As JSON values hold it: a `number` while safe. */
export function narrow(value: bigint): number | bigint {
  return value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
}
