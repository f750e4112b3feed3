// Splits Python source into tokens, as far as expressions need it. Throws a `PythonError` "SyntaxError" where CPython's
// tokenizer does. Not covered: `\N{...}` escapes and the inside of f-strings.

import { JsonFloat } from "./json/value.ts";
import { PythonError } from "./errors.ts";
import { maxIntegerDigits, normalInteger } from "./number-text.ts";
import { PythonComplex, PythonOpaque, type PythonValue } from "./values.ts";

export type PythonToken =
  | { readonly type: "name" | "keyword" | "operator"; readonly text: string }
  | { readonly type: "constant"; readonly value: PythonValue }
  /** Neighbouring strings join; `null` value: an f-string. */
  | { readonly type: "string"; readonly value: string | null }
  | { readonly type: "bytes"; readonly value: string }
  /** Ends a logical line. `isIndented`: the next line begins with white space. */
  | { readonly type: "newline"; readonly isIndented: boolean }
  | { readonly type: "end" };

/** Deepest nesting of brackets that CPython takes. */
const maxBrackets = 200;

export function syntaxError(what: string): PythonError {
  return new PythonError("SyntaxError", what);
}

const operatorPattern =
  /\*\*=|\/\/=|>>=|<<=|\.\.\.|!=|->|:=|\*\*|\/\/|<<|>>|[<>=+\-*/%&|^@]=|[-+*/%@&|^~<>()[\]{},:.;=]/y;

/** One object per operator: hostile text is a hundred thousand of them. */
const operatorTokens = new Map<string, PythonToken>();

function operatorToken(text: string): PythonToken {
  const known = operatorTokens.get(text);
  if (known !== undefined) return known;
  const token: PythonToken = { type: "operator", text };
  operatorTokens.set(text, token);
  return token;
}

const keywords = new Set(
  (
    "False None True and as assert async await break class continue def del elif else except finally for from global if " +
    "import in is lambda nonlocal not or pass raise return try while with yield"
  ).split(" "),
);

const constants: ReadonlyMap<string, PythonValue> = new Map<string, PythonValue>([
  ["None", null],
  ["True", true],
  ["False", false],
]);

const nameStart = /[\p{XID_Start}_]/u;
const namePattern = /[\p{XID_Start}_][\p{XID_Continue}]*/uy;
const stringStart = /(?:[rR][bB]?|[bB][rR]?|[uU]|[fF][rR]?|[rR][fF])?(?:'''|"""|'|")/y;
const numberPattern =
  /0[xX](?:_?[\da-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+|(?:\d(?:_?\d)*\.?(?:\d(?:_?\d)*)?|\.\d(?:_?\d)*)(?:[eE][+-]?\d(?:_?\d)*)?[jJ]?/y;

export function tokenize(text: string): PythonToken[] {
  if (text.includes("\0")) throw syntaxError("a null character");
  if (/\p{Surrogate}/u.test(text)) throw new PythonError("UnicodeEncodeError", "half a surrogate pair");
  return new Tokenizer(text.replace(/\r\n?/g, "\n")).run();
}

class Tokenizer {
  readonly #source: string;
  readonly #tokens: PythonToken[] = [];
  readonly #brackets: string[] = [];
  #at = 0;

  constructor(source: string) {
    this.#source = source;
  }

  run(): PythonToken[] {
    this.#startLine(true);
    while (this.#at < this.#source.length) this.#next();
    if (this.#brackets.length > 0) throw syntaxError("an open bracket at the end");
    if (this.#tokens.at(-1)?.type !== "newline") this.#tokens.push({ type: "newline", isIndented: false });
    this.#tokens.push({ type: "end" });
    return this.#tokens;
  }

  /** Skips blank lines and comments; notes whether the next line is indented. */
  #startLine(isFirst: boolean): void {
    for (;;) {
      const start = this.#at;
      this.#skip(/[ \t\f]*/y);
      const isIndented = this.#at > start;
      this.#skip(/#[^\n]*/y);
      if (this.#at >= this.#source.length) return;
      if (this.#source[this.#at] !== "\n") {
        if (isFirst && isIndented) throw new PythonError("IndentationError", "blanks before the first token");
        const last = this.#tokens.at(-1);
        if (isIndented && last?.type === "newline") {
          this.#tokens[this.#tokens.length - 1] = { type: "newline", isIndented };
        }
        return;
      }
      this.#at++;
    }
  }

  #next(): void {
    const source = this.#source;
    const character = source[this.#at]!;
    if (character === " " || character === "\t" || character === "\f") {
      this.#at++;
    } else if (character === "#") {
      this.#skip(/#[^\n]*/y);
    } else if (character === "\n") {
      this.#at++;
      if (this.#brackets.length > 0) return;
      this.#tokens.push({ type: "newline", isIndented: false });
      this.#startLine(false);
    } else if (character === "\\") {
      if (source[this.#at + 1] !== "\n") throw syntaxError("a backslash outside of strings");
      this.#at += 2;
      if (this.#at >= source.length) throw syntaxError("nothing behind a backslash");
    } else if (this.#match(stringStart) !== null) {
      this.#readString();
    } else if (/[\d]/.test(character) || (character === "." && /\d/.test(source[this.#at + 1] ?? ""))) {
      this.#readNumber();
    } else if (nameStart.test(String.fromCodePoint(source.codePointAt(this.#at)!))) {
      this.#readName();
    } else {
      this.#readOperator();
    }
  }

  #readName(): void {
    const name = this.#match(namePattern)!;
    this.#at += name.length;
    const text = name.normalize("NFKC");
    const constant = constants.get(text);
    if (constant !== undefined) this.#tokens.push({ type: "constant", value: constant });
    else this.#tokens.push({ type: keywords.has(text) ? "keyword" : "name", text });
  }

  #readNumber(): void {
    const literal = this.#match(numberPattern)!;
    this.#at += literal.length;
    const following = this.#source.slice(this.#at, this.#at + 2);
    if (/^[\p{XID_Continue}]/u.test(following)) throw syntaxError("a number that runs into a name");
    this.#tokens.push({ type: "constant", value: numberValue(literal) });
  }

  #readOperator(): void {
    const operator = this.#match(operatorPattern);
    if (operator === null) throw syntaxError("no token of Python");
    this.#at += operator.length;
    if (operator === "...") {
      this.#tokens.push({ type: "constant", value: new PythonOpaque("ellipsis", "Ellipsis") });
      return;
    }
    if (operator === "(" || operator === "[" || operator === "{") {
      this.#brackets.push(operator);
      if (this.#brackets.length > maxBrackets) throw syntaxError("brackets nested too deep");
    } else if (operator === ")" || operator === "]" || operator === "}") {
      const opening = this.#brackets.pop();
      if (opening === undefined || `${opening}${operator}` !== pairs[operator])
        throw syntaxError("a bracket that closes no other");
    }
    this.#tokens.push(operatorToken(operator));
  }

  #readString(): void {
    const start = this.#match(stringStart)!;
    const quote = /(?:'''|"""|'|")$/.exec(start)![0];
    const prefix = start.slice(0, -quote.length).toLowerCase();
    this.#at += start.length;
    const bodyStart = this.#at;
    const end = findQuote(this.#source, bodyStart, quote);
    if (end === -1) throw syntaxError("a string that does not end");
    this.#at = end + quote.length;
    const body = this.#source.slice(bodyStart, end);
    const isBytes = prefix.includes("b");
    if (isBytes && /[^\0-\x7f]/.test(body)) throw syntaxError("bytes beyond ASCII");
    const isFormatted = prefix.includes("f");
    const value = prefix.includes("r") ? body : isFormatted ? "" : unescape(body, isBytes);
    if (isBytes) this.#tokens.push({ type: "bytes", value });
    else this.#tokens.push({ type: "string", value: isFormatted ? null : value });
  }

  #match(pattern: RegExp): string | null {
    pattern.lastIndex = this.#at;
    return pattern.exec(this.#source)?.[0] ?? null;
  }

  #skip(pattern: RegExp): void {
    this.#at += this.#match(pattern)?.length ?? 0;
  }
}

const pairs: Readonly<Record<string, string>> = { ")": "()", "]": "[]", "}": "{}" };

function findQuote(source: string, start: number, quote: string): number {
  for (let at = start; at < source.length; at++) {
    const character = source[at];
    if (character === "\\") at++;
    else if (source.startsWith(quote, at)) return at;
    else if (character === "\n" && quote.length === 1) return -1;
  }
  return -1;
}

function numberValue(literal: string): PythonValue {
  const digits = literal.replaceAll("_", "");
  if (/^0[xob]/i.test(digits)) return normalInteger(BigInt(digits.toLowerCase()));
  if (/j$/i.test(digits)) return new PythonComplex(0, Number(digits.slice(0, -1)));
  if (/[.e]/i.test(digits)) return new JsonFloat(Number(digits));
  if (/^0+[1-9]/.test(digits)) throw syntaxError("an integer that begins with zero");
  if (digits.length > maxIntegerDigits) throw syntaxError("an integer of more than 4300 digits");
  return normalInteger(BigInt(digits));
}

/** What a backslash and one further character stand for in a string literal; a line end after it is left out. */
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

/** Resolves escapes; unknown ones stay as they are written. */
function unescape(body: string, isBytes: boolean): string {
  return body.replace(
    /\\(?:([0-7]{1,3})|x([\da-fA-F]{2})|(?:u([\da-fA-F]{4})|U([\da-fA-F]{8}))|([^]))/g,
    (escape, octal?: string, hex?: string, short?: string, long?: string, other?: string) => {
      if (octal !== undefined) return String.fromCharCode(isBytes ? parseInt(octal, 8) & 0xff : parseInt(octal, 8));
      if (hex !== undefined) return String.fromCharCode(parseInt(hex, 16));
      const unicode = short ?? long;
      if (unicode !== undefined) {
        if (isBytes) return escape;
        const code = parseInt(unicode, 16);
        if (code > 0x10ffff) throw syntaxError("an escape beyond Unicode");
        return String.fromCodePoint(code);
      }
      if (other === "x" || (!isBytes && (other === "u" || other === "U" || other === "N"))) {
        throw syntaxError("an escape that is too short");
      }
      return simpleEscapes.get(other ?? "") ?? escape;
    },
  );
}

/** A place in a row of tokens, and what stands there. */
export class TokenCursor {
  readonly #tokens: readonly PythonToken[];
  #at = 0;

  constructor(tokens: readonly PythonToken[]) {
    this.#tokens = tokens;
  }

  advance(count = 1): void {
    this.#at += count;
  }

  /** The token after the one that stands here. */
  peekAfter(): PythonToken {
    return this.#tokens[this.#at + 1] ?? { type: "end" };
  }

  peek(): PythonToken {
    return this.#tokens[this.#at] ?? { type: "end" };
  }

  sees(operator: string): boolean {
    const token = this.peek();
    return token.type === "operator" && token.text === operator;
  }

  takes(operator: string): boolean {
    const isSeen = this.sees(operator);
    if (isSeen) this.#at++;
    return isSeen;
  }

  expect(operator: string): void {
    if (!this.takes(operator)) throw syntaxError("invalid syntax");
  }

  seesKeyword(keyword: string): boolean {
    const token = this.peek();
    return token.type === "keyword" && token.text === keyword;
  }

  takesKeyword(keyword: string): boolean {
    const isSeen = this.seesKeyword(keyword);
    if (isSeen) this.#at++;
    return isSeen;
  }

  expectKeyword(keyword: string): void {
    if (!this.takesKeyword(keyword)) throw syntaxError("invalid syntax");
  }

  expectName(): void {
    if (this.peek().type !== "name") throw syntaxError("invalid syntax");
    this.#at++;
  }
}
