// The code between the delimiters of a tag, as tokens. Jinja's own rules: brackets must close before a tag can end, numbers
// have underscores and exponents, names are Unicode.

import { whitespaceClass } from "../values/whitespace.ts";
import { decodeStringLiteral } from "./string-literal.ts";
import { syntaxError, unsupportedSyntax } from "./syntax-error.ts";
import { depthChange, operators, type Token } from "./token.ts";

const space = new RegExp(`[${whitespaceClass}]+`, "y");
const float = /(?<!\.)(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?e[+-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+)/iy;
const integer = /0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[\da-f])+|[1-9](?:_?\d)*|0(?:_?0)*/iy;
const name = /[\p{L}\p{M}\p{N}_]+/uy;
const string = /'([^'\\]*(?:\\[\s\S][^'\\]*)*)'|"([^"\\]*(?:\\[\s\S][^"\\]*)*)"/y;

export type TagCode = {
  readonly tokens: readonly Token[];
  /** The offset behind the end of the tag. */
  readonly end: number;
};

/** Reads on from `start` until `tagEnd` (sticky) matches outside all brackets. Throws where Jinja raises a syntax error. */
export function readCode(source: string, start: number, tagEnd: RegExp): TagCode {
  const tokens: Token[] = [];
  const open: Token[] = [];
  let offset = start;
  const match = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = offset;
    return pattern.exec(source);
  };
  while (offset < source.length) {
    const end = open.length === 0 ? match(tagEnd) : null;
    if (end !== null) return { tokens, end: offset + end[0].length };
    const blank = match(space);
    if (blank !== null) {
      offset += blank[0].length;
      continue;
    }
    const { token, length } = readToken(source, offset, match);
    track(open, token);
    tokens.push(token);
    offset += length;
  }
  throw syntaxError("a tag is not closed");
}

function readToken(
  source: string,
  offset: number,
  match: (pattern: RegExp) => RegExpExecArray | null,
): { readonly token: Token; readonly length: number } {
  const number = match(float) ?? match(integer);
  if (number !== null) {
    return { token: { type: "NumericLiteral", value: numberText(number[0]) }, length: number[0].length };
  }
  const word = match(name);
  if (word !== null) {
    if (!/^[\p{ID_Start}_]/u.test(word[0])) throw syntaxError(`"${word[0]}" is no name`);
    return { token: { type: "Identifier", value: word[0] }, length: word[0].length };
  }
  const text = match(string);
  if (text !== null) {
    const value = decodeStringLiteral(text[1] ?? text[2] ?? "");
    return { token: { type: "StringLiteral", value }, length: text[0].length };
  }
  const operator = operators.find(([sign]) => source.startsWith(sign, offset));
  if (operator !== undefined) return { token: { type: operator[1], value: operator[0] }, length: operator[0].length };
  throw syntaxError(`the character "${source[offset]}" stands in a tag`);
}

/** As the library reads it: with a point when it is a float. */
function numberText(digits: string): string {
  const plain = digits.replaceAll("_", "").toLowerCase();
  const isFloat = /^\d+(?:\.\d+)?e|\./.test(plain);
  if (isFloat) return plain.includes(".") ? plain : plain.replace("e", ".0e");
  const value = Number(plain);
  if (!Number.isSafeInteger(value)) throw unsupportedSyntax(`the integer ${digits}`);
  return String(value);
}

function track(open: Token[], token: Token): void {
  const change = depthChange(token);
  if (change > 0) open.push(token);
  if (change >= 0) return;
  const opened = open.pop();
  const pairs = ["()", "[]", "{}"];
  if (!pairs.includes(`${opened?.value}${token.value}`)) throw syntaxError(`a "${token.value}" closes nothing`);
}
