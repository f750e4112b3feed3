// Tokens as the library's parser takes them.

export type TokenType =
  | "Text"
  | "NumericLiteral"
  | "StringLiteral"
  | "Identifier"
  | "Equals"
  | "OpenParen"
  | "CloseParen"
  | "OpenStatement"
  | "CloseStatement"
  | "OpenExpression"
  | "CloseExpression"
  | "OpenSquareBracket"
  | "CloseSquareBracket"
  | "OpenCurlyBracket"
  | "CloseCurlyBracket"
  | "Comma"
  | "Dot"
  | "Colon"
  | "Pipe"
  | "AdditiveBinaryOperator"
  | "MultiplicativeBinaryOperator"
  | "ExponentiationBinaryOperator"
  | "ComparisonBinaryOperator";

export type Token = { readonly type: TokenType; readonly value: string };

/** Jinja's operators, the longer ones first. */
export const operators: readonly (readonly [string, TokenType])[] = [
  ["//", "MultiplicativeBinaryOperator"],
  ["**", "ExponentiationBinaryOperator"],
  ["==", "ComparisonBinaryOperator"],
  ["!=", "ComparisonBinaryOperator"],
  [">=", "ComparisonBinaryOperator"],
  ["<=", "ComparisonBinaryOperator"],
  [">", "ComparisonBinaryOperator"],
  ["<", "ComparisonBinaryOperator"],
  ["+", "AdditiveBinaryOperator"],
  ["-", "AdditiveBinaryOperator"],
  ["~", "AdditiveBinaryOperator"],
  ["*", "MultiplicativeBinaryOperator"],
  ["/", "MultiplicativeBinaryOperator"],
  ["%", "MultiplicativeBinaryOperator"],
  ["(", "OpenParen"],
  [")", "CloseParen"],
  ["[", "OpenSquareBracket"],
  ["]", "CloseSquareBracket"],
  ["{", "OpenCurlyBracket"],
  ["}", "CloseCurlyBracket"],
  ["=", "Equals"],
  [".", "Dot"],
  [":", "Colon"],
  ["|", "Pipe"],
  [",", "Comma"],
];

export function identifier(value: string): Token {
  return { type: "Identifier", value };
}

export const openParen: Token = { type: "OpenParen", value: "(" };
export const closeParen: Token = { type: "CloseParen", value: ")" };
export const pipe: Token = { type: "Pipe", value: "|" };

export function isIdentifier(token: Token | undefined, ...names: readonly string[]): boolean {
  return token?.type === "Identifier" && names.includes(token.value);
}

const openings: ReadonlySet<TokenType> = new Set<TokenType>(["OpenParen", "OpenSquareBracket", "OpenCurlyBracket"]);
const closings: ReadonlySet<TokenType> = new Set<TokenType>(["CloseParen", "CloseSquareBracket", "CloseCurlyBracket"]);

/** How a token changes the depth of brackets. */
export function depthChange({ type }: Token): number {
  return openings.has(type) ? 1 : closings.has(type) ? -1 : 0;
}

/** Where the bracket that opens at `start` closes. */
export function closingPlace(tokens: readonly Token[], start: number): number {
  let depth = 0;
  return tokens.findIndex((token, index) => index >= start && (depth += depthChange(token)) === 0);
}

/** The tokens between those that `isSeparator` names outside all brackets. */
export function splitTokens(tokens: readonly Token[], isSeparator: (token: Token) => boolean): Token[][] {
  const parts: Token[][] = [[]];
  let depth = 0;
  for (const token of tokens) {
    depth += depthChange(token);
    if (depth === 0 && isSeparator(token)) parts.push([]);
    else parts.at(-1)!.push(token);
  }
  return parts;
}
