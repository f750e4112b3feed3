// String literals of a template: Python's `unicode-escape` decoding, which leaves unknown escapes as they are.

import { syntaxError, unsupportedSyntax } from "./syntax-error.ts";

const escape = /\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([\s\S]))/gu;

const simple: ReadonlyMap<string, string> = new Map([
  ["\n", ""],
  ["\\", "\\"],
  ["'", "'"],
  ['"', '"'],
  ["a", "\u0007"],
  ["b", "\b"],
  ["f", "\f"],
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
  ["v", "\v"],
]);

/** The text between the quotes, decoded. Throws where Jinja raises a syntax error. */
export function decodeStringLiteral(body: string): string {
  if (!body.includes("\\")) return body;
  return body.replace(escape, (whole, octal?: string, ...rest: (string | undefined)[]) => {
    const [short, unicode, long, other] = rest;
    if (octal !== undefined) return String.fromCharCode(parseInt(octal, 8));
    const digits = short ?? unicode ?? long;
    if (digits !== undefined) return fromCode(parseInt(digits, 16), whole);
    return decodeOther(other ?? "");
  });
}

function fromCode(code: number, escaped: string): string {
  if (code > 0x10ffff) throw syntaxError(`a string holds the escape ${escaped}, which is no character`);
  return String.fromCodePoint(code);
}

function decodeOther(character: string): string {
  const decoded = simple.get(character);
  if (decoded !== undefined) return decoded;
  if (character === "N") throw unsupportedSyntax("an escape by the name of a character");
  if (/[xuU]/.test(character)) throw syntaxError(`a string holds the escape \\${character} without its digits`);
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x80) return `\\${character}`;
  // Jinja escapes such characters before it decodes, so the backslash before one escapes that escape.
  if (code <= 0xff) return `\\x${code.toString(16)}`;
  return code <= 0xffff ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}
