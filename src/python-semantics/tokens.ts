// Splits Python source into tokens, to the extent that expressions need. Throws a `PythonError`
// "SyntaxError" if CPython's tokenizer does. Unsupported: `\N{...}` escapes and the inside of
// f-strings.

import { PythonComplex } from "./complex.ts";
import { JsonFloat } from "./json/value.ts";
import { PythonError } from "./errors.ts";
import { maxIntegerDigits, normalInteger } from "./number-text.ts";
import { PythonOpaque, type PythonValue } from "./values.ts";

export type PythonToken =
  | { readonly type: "name"; readonly text: string }
  /** An operator, a bracket or a keyword. */
  | { readonly type: "symbol"; readonly text: string }
  | { readonly type: "constant"; readonly value: PythonValue }
  /**
   * Adjacent strings are joined. `isFormatted` marks an f-string; its value is `null` if it has
   * replacement fields.
   */
  | { readonly type: "string"; readonly value: string | null; readonly isFormatted: boolean }
  | { readonly type: "bytes"; readonly value: string }
  /** The end of a logical line. `isIndented` is true if the next line begins with white space. */
  | { readonly type: "newline"; readonly isIndented: boolean }
  | { readonly type: "end" };

/** Maximum nesting of brackets in CPython. */
const maxBrackets = 200;

export function syntaxError(message: string): PythonError {
  return new PythonError("SyntaxError", message);
}

const numberPattern =
  "0[xX](?:_?[\\da-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+|" +
  "(?:\\d(?:_?\\d)*(?:\\.(?:\\d(?:_?\\d)*)?)?|\\.\\d(?:_?\\d)*)(?:[eE][+-]?\\d(?:_?\\d)*)?[jJ]?";

const tokenPattern = new RegExp(
  [
    "(?<blank>[ \\t\\f]+|#[^\\n]*)",
    "(?<lineEnd>\\n)",
    "(?<continuation>\\\\\\n)",
    "(?<prefix>[rR][bB]?|[bB][rR]?|[uU]|[fF][rR]?|[rR][fF])?(?<quote>'''|\"\"\"|'|\")",
    `(?<number>${numberPattern})`,
    "(?<name>[\\p{XID_Start}_][\\p{XID_Continue}]*)",
    "(?<symbol>\\*\\*=|//=|>>=|<<=|\\.\\.\\.|!=|->|:=|\\*\\*|//|<<|>>|[<>=+\\-*/%&\\|^@]=|[\\-+*/%@&\\|^~<>\\(\\)\\[\\]\\{\\},:.;=])",
  ].join("|"),
  "uy",
);

const keywords = new Set(
  (
    "and as assert async await break class continue def del elif else except finally for from global if import in is " +
    "lambda nonlocal not or pass raise return try while with yield"
  ).split(" "),
);

const constants: ReadonlyMap<string, PythonValue> = new Map<string, PythonValue>([
  ["None", null],
  ["True", true],
  ["False", false],
  ["...", new PythonOpaque("ellipsis", "Ellipsis")],
]);

/**
 * One shared object per operator and keyword, because hostile text may contain a hundred thousand
 * of them.
 */
const symbols = new Map<string, PythonToken>();

function symbolToken(text: string): PythonToken {
  const known = symbols.get(text);
  if (known !== undefined) return known;
  const token: PythonToken = { type: "symbol", text };
  symbols.set(text, token);
  return token;
}

const closings: Readonly<Record<string, string>> = { "(": ")", "[": "]", "{": "}" };

/** Blank lines and comments, and the white space before the first token after them. */
const lineStart = /(?:[ \t\f]*(?:#[^\n]*)?\n)*(?<indent>[ \t\f]*)/y;

/** The tokens of a source, ending with a newline and the end. */
export function tokenize(text: string): readonly PythonToken[] {
  if (text.includes("\0")) throw syntaxError("a null character");
  if (/\p{Surrogate}/u.test(text)) throw new PythonError("UnicodeEncodeError", "half a surrogate pair");
  const source = text.replace(/\r\n?/g, "\n");
  const tokens: PythonToken[] = [];
  /** The closing brackets of the open ones. */
  const brackets: string[] = [];
  let at = 0;
  const startsIndented = (): boolean => {
    lineStart.lastIndex = at;
    const indent = lineStart.exec(source)!.groups!["indent"]!;
    at = lineStart.lastIndex;
    return indent !== "" && at < source.length && source[at] !== "#";
  };
  if (startsIndented()) throw new PythonError("IndentationError", "blanks before the first token");
  while (at < source.length) {
    tokenPattern.lastIndex = at;
    const groups = tokenPattern.exec(source)?.groups;
    if (groups === undefined) throw syntaxError("no token of Python");
    at = tokenPattern.lastIndex;
    const { lineEnd, continuation, prefix = "", quote, number, name, symbol } = groups;
    if (lineEnd !== undefined) {
      if (brackets.length === 0) tokens.push({ type: "newline", isIndented: startsIndented() });
    } else if (continuation !== undefined) {
      if (at === source.length) throw syntaxError("nothing behind a backslash");
    } else if (quote !== undefined) {
      const end = findQuote(source, at, quote);
      tokens.push(stringToken(prefix.toLowerCase(), source.slice(at, end)));
      at = end + quote.length;
    } else if (number !== undefined) {
      if (/^\p{XID_Continue}/u.test(source.slice(at, at + 2))) throw syntaxError("a number that runs into a name");
      tokens.push({ type: "constant", value: numberValue(number) });
    } else if (name !== undefined || symbol !== undefined) {
      const written = symbol ?? name!.normalize("NFKC");
      const constant = constants.get(written);
      if (constant !== undefined) tokens.push({ type: "constant", value: constant });
      else if (symbol === undefined && !keywords.has(written)) tokens.push({ type: "name", text: written });
      else tokens.push(symbolToken(written));
      if (symbol === undefined) continue;
      const closing = closings[symbol];
      if (closing !== undefined) brackets.push(closing);
      if (brackets.length > maxBrackets) throw syntaxError("brackets nested too deep");
      if (/[)\]}]/.test(symbol) && brackets.pop() !== symbol) throw syntaxError("a bracket that closes no other");
    }
  }
  if (brackets.length > 0) throw syntaxError("an open bracket at the end");
  if (tokens.at(-1)?.type !== "newline") tokens.push({ type: "newline", isIndented: false });
  return [...tokens, { type: "end" }];
}

function stringToken(prefix: string, body: string): PythonToken {
  const isBytes = prefix.includes("b");
  if (isBytes && /[^\0-\x7f]/.test(body)) throw syntaxError("bytes beyond ASCII");
  const isFormatted = prefix.includes("f");
  if (isFormatted && /[{}]/.test(body.replaceAll(/\{\{|\}\}/g, "")))
    return { type: "string", value: null, isFormatted };
  const written = isFormatted ? body.replaceAll("{{", "{").replaceAll("}}", "}") : body;
  const value = prefix.includes("r") ? written : unescapeString(written, isBytes ? "bytes" : "text");
  return isBytes ? { type: "bytes", value } : { type: "string", value, isFormatted };
}

function findQuote(source: string, start: number, quote: string): number {
  for (let at = start; at < source.length; at++) {
    const character = source[at];
    if (character === "\\") at++;
    else if (source.startsWith(quote, at)) return at;
    else if (character === "\n" && quote.length === 1) break;
  }
  throw syntaxError("a string that does not end");
}

const wholeNumber = new RegExp(`^(?:${numberPattern})$`, "u");

/** The value of a number in source notation, without a sign. Throws a `PythonError` "SyntaxError". */
export function numberValue(literal: string): JsonFloat | PythonComplex | number | bigint {
  if (!wholeNumber.test(literal)) throw syntaxError("Python knows no such number");
  const digits = literal.replaceAll("_", "").toLowerCase();
  if (/^0[xob]/.test(digits)) return normalInteger(BigInt(digits));
  if (digits.endsWith("j")) return new PythonComplex(0, Number(digits.slice(0, -1)));
  if (/[.e]/.test(digits)) return new JsonFloat(Number(digits));
  if (/^0+[1-9]/.test(digits)) throw syntaxError("an integer starts with a zero");
  if (digits.length > maxIntegerDigits) throw syntaxError(`an integer has more than ${maxIntegerDigits} digits`);
  return normalInteger(BigInt(digits));
}

/**
 * Meaning of a backslash and one further character in a string literal; a line end after it is
 * dropped.
 */
export const simpleEscapes: ReadonlyMap<string, string> = new Map([
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

const hexLengths: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

/**
 * Resolves the escapes in the body of a string literal; unknown ones are unchanged. "file" is text
 * for a file, which must not contain lone surrogates. Throws a `PythonError` "SyntaxError".
 */
export function unescapeString(body: string, kind: "text" | "bytes" | "file"): string {
  return body.replace(
    /\\(?:([0-7]{1,3})|x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([^]))/g,
    (escape: string, octal?: string, hex?: string, short?: string, long?: string, other: string = "") => {
      if (octal !== undefined) return String.fromCharCode(parseInt(octal, 8) & (kind === "bytes" ? 0xff : 0x1ff));
      if (hex !== undefined) return String.fromCharCode(parseInt(hex, 16));
      if (kind === "bytes" && other !== "x") return simpleEscapes.get(other) ?? escape;
      if (other === "N") throw syntaxError("a character is given by its Unicode name");
      const mark = escape[1]!;
      const code = parseInt(short ?? long ?? "", 16);
      if (mark in hexLengths && !(code <= 0x10ffff)) {
        throw syntaxError(`the escape "\\${mark}" needs ${hexLengths[mark]} hexadecimal digits of a character`);
      }
      if (kind === "file" && code >= 0xd800 && code <= 0xdfff) {
        throw syntaxError("an escape gives half of a surrogate pair");
      }
      return code >= 0 ? String.fromCodePoint(code) : (simpleEscapes.get(other) ?? escape);
    },
  );
}
