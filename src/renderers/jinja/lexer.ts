// A template as tokens: text and the code of tags. Jinja's own rules (`jinja2/lexer.py`) with white space as transformers
// configures it: the newline after a block tag goes, and so do the blanks before one that starts a line; `-` takes all white
// space, `+` takes none. Brackets must close before a tag can end; numbers have underscores and exponents; names are Unicode.

import { PythonError, pythonRstrip, whitespaceClass } from "../../python-semantics/index.ts";
import { simpleEscapes } from "../../python-semantics/tokens.ts";
import { ChatTemplateError } from "../chat-template.ts";

/** "statement" and "expression" begin a tag, "end" ends one; an operator's value is its sign. */
export type Token = {
  readonly type:
    | "text"
    | "statement"
    | "expression"
    | "end"
    | "name"
    | "string"
    | "integer"
    | "float"
    | "operator"
    | "eof";
  readonly value: string;
};

/** The error that Jinja raises for a template that it cannot compile. */
export function syntaxError(what: string): ChatTemplateError {
  return new ChatTemplateError("TemplateSyntaxError", `Cannot read the chat template: ${what}.`);
}

/** The error for syntax that Jinja compiles and we do not. */
export function unsupportedSyntax(what: string): ChatTemplateError {
  return new ChatTemplateError("unsupported", `Cannot use the chat template: ${what} is not supported.`);
}

const s = `[${whitespaceClass}]*`;
const tagStart = /\{[%{#]/g;
const rawStart = new RegExp(`\\{%[-+]?${s}raw${s}(?:-%\\}${s}|%\\})`, "y");
const rawEnd = new RegExp(`\\{%([-+]?)${s}endraw${s}(?:\\+%\\}|-%\\}${s}|%\\}\\n?)`, "g");
const commentEnd = new RegExp(`\\+#\\}|-#\\}${s}|#\\}\\n?`, "g");
const statementEnd = new RegExp(`\\+%\\}|-%\\}${s}|%\\}\\n?`, "y");
const expressionEnd = new RegExp(`-\\}\\}${s}|\\}\\}`, "y");
const blank = new RegExp(`^[${whitespaceClass}]+$`);

const space = new RegExp(`[${whitespaceClass}]*`, "y");
/** Patterns of tokens; the first that matches wins. */
const tokenPatterns: readonly (readonly [Token["type"], RegExp])[] = [
  ["float", /(?<!\.)(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?e[+-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+)/iy],
  ["integer", /0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[\da-f])+|[1-9](?:_?\d)*|0(?:_?0)*/iy],
  ["name", /[\p{L}\p{M}\p{N}_]+/uy],
  ["string", /'([^'\\]*(?:\\[\s\S][^'\\]*)*)'|"([^"\\]*(?:\\[\s\S][^"\\]*)*)"/y],
  ["operator", /\/\/|\*\*|[=!><]=|[-+~*/%()[\]{}=.:|,><;]/y],
];

/** Limit on nested brackets; Python's own parser of Jinja gives up even earlier. */
const maxNesting = 200;

/** Throws a `ChatTemplateError` where Jinja raises a syntax error. */
export function tokenizeTemplate(template: string): Token[] {
  // Every line end becomes "\n", and one at the very end is dropped.
  const source = template.replace(/\r\n?/g, "\n").replace(/\n$/, "");
  const tokens: Token[] = [];
  let offset = 0;
  const addText = (text: string): void => {
    if (text !== "") tokens.push({ type: "text", value: text });
  };
  for (;;) {
    const start = matchAt(tagStart, source, offset)?.index;
    if (start === undefined) {
      addText(source.slice(offset));
      tokens.push({ type: "eof", value: "the end of the template" });
      return tokens;
    }
    const kind = source[start + 1];
    const sign = source[start + 2];
    const startsLine = offset === 0 || source[offset - 1] === "\n";
    addText(stripBefore(source.slice(offset, start), sign, kind === "{" ? null : startsLine));
    const inner = start + 2 + (sign === "-" || sign === "+" ? 1 : 0);
    const raw = kind === "%" ? matchAt(rawStart, source, start) : null;
    if (raw !== null) {
      const begin = start + raw[0].length;
      const end = matchAt(rawEnd, source, begin);
      if (end === null) throw syntaxError("a raw block does not end");
      addText(stripBefore(source.slice(begin, end.index), end[1], source[begin - 1] === "\n"));
      offset = end.index + end[0].length;
    } else if (kind === "#") {
      const end = matchAt(commentEnd, source, inner);
      if (end === null) throw syntaxError("a comment does not end");
      offset = end.index + end[0].length;
    } else {
      tokens.push({ type: kind === "%" ? "statement" : "expression", value: "a tag" });
      offset = readTag(source, tokens, inner, kind === "%" ? statementEnd : expressionEnd);
    }
  }
}

function matchAt(pattern: RegExp, source: string, offset: number): RegExpExecArray | null {
  pattern.lastIndex = offset;
  return pattern.exec(source);
}

/**
 * Text before a tag: `-` removes its white space, and a block tag the blanks before it on its line.
 */
function stripBefore(text: string, sign: string | undefined, startsLine: boolean | null): string {
  if (sign === "-") return pythonRstrip(text);
  if (sign === "+" || startsLine === null) return text;
  const lineStart = text.lastIndexOf("\n") + 1;
  return (lineStart > 0 || startsLine) && blank.test(text.slice(lineStart)) ? text.slice(0, lineStart) : text;
}

/** Adds the tokens of a tag and returns the offset after it. */
function readTag(source: string, tokens: Token[], start: number, tagEnd: RegExp): number {
  const open: string[] = [];
  let offset = start;
  for (;;) {
    offset += matchAt(space, source, offset)![0].length;
    if (offset === source.length) throw syntaxError("a tag is not closed");
    const end = open.length === 0 ? matchAt(tagEnd, source, offset) : null;
    if (end !== null) {
      tokens.push({ type: "end", value: "the end of a tag" });
      return offset + end[0].length;
    }
    const [type, text] = readToken(source, offset);
    if (type === "operator") trackBracket(open, text);
    tokens.push({ type, value: tokenValue(type, text) });
    offset += text.length;
  }
}

function readToken(source: string, offset: number): readonly [Token["type"], string] {
  for (const [type, pattern] of tokenPatterns) {
    const text = matchAt(pattern, source, offset)?.[0];
    if (text !== undefined) return [type, text];
  }
  throw syntaxError(`the character "${source[offset]}" stands in a tag`);
}

function tokenValue(type: Token["type"], text: string): string {
  if (type === "string") return decodeString(text.slice(1, -1));
  if (type === "name" && !/^[\p{ID_Start}_]/u.test(text)) throw syntaxError(`"${text}" is not a name`);
  if (type === "float") return text.replaceAll("_", "");
  return type === "integer" ? text.replaceAll("_", "").toLowerCase() : text;
}

function trackBracket(open: string[], sign: string): void {
  if ("([{".includes(sign)) {
    open.push(sign);
    if (open.length > maxNesting) {
      throw new PythonError("RecursionError", `brackets are nested more than ${maxNesting} deep`);
    }
  } else if (")]}".includes(sign) && !["()", "[]", "{}"].includes(`${open.pop()}${sign}`)) {
    throw syntaxError(`a "${sign}" closes nothing`);
  }
}

const escape = /\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([\s\S]))/gu;

/** Python's `unicode-escape` decoding, which leaves unknown escapes as they are. */
function decodeString(body: string): string {
  if (!body.includes("\\")) return body;
  return body.replace(escape, (whole, octal?: string, ...rest: (string | undefined)[]) => {
    const [short, unicode, long, other] = rest;
    if (octal !== undefined) return String.fromCharCode(parseInt(octal, 8));
    const digits = short ?? unicode ?? long;
    if (digits === undefined) return decodeOther(other ?? "");
    const code = parseInt(digits, 16);
    if (code > 0x10ffff) throw syntaxError(`a string holds the escape ${whole}, which is not a character`);
    return String.fromCodePoint(code);
  });
}

function decodeOther(character: string): string {
  const decoded = simpleEscapes.get(character);
  if (decoded !== undefined) return decoded;
  if (character === "N") throw unsupportedSyntax("an escape by the name of a character");
  if (/[xuU]/.test(character)) throw syntaxError(`a string holds the escape \\${character} without its digits`);
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x80) return `\\${character}`;
  // Jinja escapes such characters before it decodes, so the backslash before one escapes that escape.
  if (code <= 0xff) return `\\x${code.toString(16)}`;
  return code <= 0xffff ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}

/** A cursor in a list of tokens. Operators and names are recognised only by their values. */
export class TokenCursor {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  peek(ahead = 0): Token {
    return this.#tokens[Math.min(this.#at + ahead, this.#tokens.length - 1)]!;
  }

  next(): Token {
    const token = this.peek();
    this.#at++;
    return token;
  }

  sees(...values: readonly string[]): boolean {
    const { type, value } = this.peek();
    return (type === "operator" || type === "name") && values.includes(value);
  }

  takes(value: string): boolean {
    const isSeen = this.sees(value);
    if (isSeen) this.#at++;
    return isSeen;
  }

  expect(value: string): void {
    if (!this.takes(value)) throw this.unexpected();
  }

  /** The value of a token that must be of this type. */
  take(type: "name" | "end"): string {
    if (this.peek().type !== type) throw this.unexpected();
    return this.next().value;
  }

  unexpected(): Error {
    const { type, value } = this.peek();
    const isNamed = ["end", "eof", "expression", "statement"].includes(type);
    return syntaxError(`${isNamed ? value : `"${value}"`} stands where it is not expected`);
  }
}
