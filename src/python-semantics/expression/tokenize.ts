// CPython's tokenizer for the arithmetic alphabet. Its errors win over every complaint of the parser, wherever they stand:
// after a syntax error CPython reads on to the end, looking for them.

import { PythonError } from "../python-error.ts";

export type ExpressionToken = {
  readonly type: "int" | "float" | "." | "..." | "(" | ")" | "+" | "-" | "*" | "**" | "/" | "//" | "end";
  readonly text: string;
  /** Open parentheses after this token. */
  readonly level: number;
};

/** Deepest nesting of parentheses CPython reads (`MAXLEVEL`). */
const maxLevel = 200;

/** Throws a `SyntaxError` for an unmatched parenthesis, leading zeros and too deep nesting, whichever comes first. */
export function tokenizeExpression(source: string): ExpressionToken[] {
  const tokens: ExpressionToken[] = [];
  let level = 0;
  let at = 0;
  while (at < source.length) {
    if (source[at] === " ") {
      at++;
      continue;
    }
    const text = readToken(source, at);
    if (text === "(" && ++level > maxLevel) throw syntaxError("too many nested parentheses");
    if (text === ")" && --level < 0) throw syntaxError("unmatched ')'");
    tokens.push({ type: tokenType(text), text, level });
    at += text.length;
  }
  tokens.push({ type: "end", text: "", level });
  return tokens;
}

/** Every error of reading and parsing, with the place CPython adds to its text. */
export function syntaxError(message: string): PythonError {
  return new PythonError("SyntaxError", `${message} (<string>, line 1)`);
}

const number = /(?:\d+\.?|\.\d)\d*/y;

function readToken(source: string, at: number): string {
  number.lastIndex = at;
  const digits = number.exec(source)?.[0];
  if (digits !== undefined) {
    if (/^0+[1-9]\d*$/.test(digits)) {
      throw syntaxError(
        "leading zeros in decimal integer literals are not permitted; use an 0o prefix for octal integers",
      );
    }
    return digits;
  }
  if (source.startsWith("...", at)) return "...";
  const pair = source.slice(at, at + 2);
  return pair === "**" || pair === "//" ? pair : pair.slice(0, 1);
}

function tokenType(text: string): ExpressionToken["type"] {
  if (/^\d+$/.test(text)) return "int";
  return /\d/.test(text) ? "float" : (text as ExpressionToken["type"]);
}
