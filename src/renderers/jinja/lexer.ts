// A template as tokens: text and the code of tags. Jinja's own rules (`jinja2/lexer.py`) with white space as transformers
// configures it: the newline after a block tag goes, and so do the blanks before one that starts a line; `-` takes all white
// space, `+` takes none. Brackets must close before a tag can end; numbers have underscores and exponents; names are Unicode.

import { PythonError, pythonRstrip, simpleEscapes, whitespaceClass } from "../../python-semantics/index.ts";
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

/** What Jinja raises for a template that it cannot compile. */
export function syntaxError(what: string): ChatTemplateError {
  return new ChatTemplateError("TemplateSyntaxError", `Cannot read the chat template: ${what}.`);
}

/** For what Jinja would compile and we do not. */
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

const space = new RegExp(`[${whitespaceClass}]+`, "y");
const float = /(?<!\.)(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?e[+-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+)/iy;
const integer = /0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[\da-f])+|[1-9](?:_?\d)*|0(?:_?0)*/iy;
const identifier = /[\p{L}\p{M}\p{N}_]+/uy;
const string = /'([^'\\]*(?:\\[\s\S][^'\\]*)*)'|"([^"\\]*(?:\\[\s\S][^"\\]*)*)"/y;
const operator = /\/\/|\*\*|[=!><]=|[-+~*/%()[\]{}=.:|,><;]/y;

/** Brackets within brackets; Python's own parser of Jinja gives up earlier still. */
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
    addText(stripBefore(source.slice(offset, start), { sign, isExpression: kind === "{", startsLine }));
    const inner = start + 2 + (sign === "-" || sign === "+" ? 1 : 0);
    const raw = kind === "%" ? matchAt(rawStart, source, start) : null;
    if (raw !== null) {
      const begin = start + raw[0].length;
      const end = matchAt(rawEnd, source, begin);
      if (end === null) throw syntaxError("a raw block does not end");
      const isNewLine = source[begin - 1] === "\n";
      addText(
        stripBefore(source.slice(begin, end.index), { sign: end[1], isExpression: false, startsLine: isNewLine }),
      );
      offset = end.index + end[0].length;
    } else if (kind === "#") {
      const end = matchAt(commentEnd, source, inner);
      if (end === null) throw syntaxError("a comment does not end");
      offset = end.index + end[0].length;
    } else {
      tokens.push({ type: kind === "%" ? "statement" : "expression", value: "a tag" });
      offset = readTag(source, { tokens, start: inner, tagEnd: kind === "%" ? statementEnd : expressionEnd });
    }
  }
}

function matchAt(pattern: RegExp, source: string, offset: number): RegExpExecArray | null {
  pattern.lastIndex = offset;
  return pattern.exec(source);
}

type Before = { readonly sign: string | undefined; readonly isExpression: boolean; readonly startsLine: boolean };

function stripBefore(text: string, { sign, isExpression, startsLine }: Before): string {
  if (sign === "-") return pythonRstrip(text);
  if (sign === "+" || isExpression) return text;
  const lineStart = text.lastIndexOf("\n") + 1;
  const isOwnLine = lineStart > 0 || startsLine;
  return isOwnLine && blank.test(text.slice(lineStart)) ? text.slice(0, lineStart) : text;
}

type Tag = { readonly tokens: Token[]; readonly start: number; readonly tagEnd: RegExp };

/** Adds the tokens of a tag and returns the offset behind it. */
function readTag(source: string, { tokens, start, tagEnd }: Tag): number {
  const open: string[] = [];
  let offset = start;
  while (offset < source.length) {
    const end = open.length === 0 ? matchAt(tagEnd, source, offset) : null;
    if (end !== null) {
      tokens.push({ type: "end", value: "the end of a tag" });
      return offset + end[0].length;
    }
    const skipped = matchAt(space, source, offset);
    if (skipped !== null) {
      offset += skipped[0].length;
      continue;
    }
    const { token, length } = readToken(source, offset);
    if (token.type === "operator") trackBracket(open, token.value);
    tokens.push(token);
    offset += length;
  }
  throw syntaxError("a tag is not closed");
}

function readToken(source: string, offset: number): { readonly token: Token; readonly length: number } {
  const match = (pattern: RegExp): string | undefined => matchAt(pattern, source, offset)?.[0];
  const read = (type: Token["type"], text: string, value = text) => ({ token: { type, value }, length: text.length });
  const fraction = match(float);
  if (fraction !== undefined) return read("float", fraction, fraction.replaceAll("_", ""));
  const whole = match(integer);
  if (whole !== undefined) return read("integer", whole, whole.replaceAll("_", "").toLowerCase());
  const word = match(identifier);
  if (word !== undefined) {
    if (!/^[\p{ID_Start}_]/u.test(word)) throw syntaxError(`"${word}" is no name`);
    return read("name", word);
  }
  const text = match(string);
  if (text !== undefined) return read("string", text, decodeString(text.slice(1, -1)));
  const sign = match(operator);
  if (sign === undefined) throw syntaxError(`the character "${source[offset]}" stands in a tag`);
  return read("operator", sign);
}

function trackBracket(open: string[], sign: string): void {
  if (sign === "(" || sign === "[" || sign === "{") {
    open.push(sign);
    if (open.length > maxNesting) {
      throw new PythonError("RecursionError", `brackets are nested more than ${maxNesting} deep`);
    }
  } else if (sign === ")" || sign === "]" || sign === "}") {
    if (!["()", "[]", "{}"].includes(`${open.pop()}${sign}`)) throw syntaxError(`a "${sign}" closes nothing`);
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
    if (code > 0x10ffff) throw syntaxError(`a string holds the escape ${whole}, which is no character`);
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

/** A place in a row of tokens, and what stands there. */
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

  sees(sign: string): boolean {
    const token = this.peek();
    return token.type === "operator" && token.value === sign;
  }

  takes(sign: string): boolean {
    const isSeen = this.sees(sign);
    if (isSeen) this.#at++;
    return isSeen;
  }

  expect(sign: string): void {
    if (!this.takes(sign)) throw this.unexpected();
  }

  seesName(...names: readonly string[]): boolean {
    const token = this.peek();
    return token.type === "name" && names.includes(token.value);
  }

  takesName(name: string): boolean {
    const isSeen = this.seesName(name);
    if (isSeen) this.#at++;
    return isSeen;
  }

  expectName(name: string): void {
    if (!this.takesName(name)) throw this.unexpected();
  }

  name(): string {
    if (this.peek().type !== "name") throw this.unexpected();
    return this.next().value;
  }

  endTag(): void {
    if (this.peek().type !== "end") throw this.unexpected();
    this.#at++;
  }

  unexpected(): Error {
    const { type, value } = this.peek();
    const shown =
      type === "end" || type === "eof" || type === "expression" || type === "statement" ? value : `"${value}"`;
    return syntaxError(`${shown} stands where it is not expected`);
  }
}
