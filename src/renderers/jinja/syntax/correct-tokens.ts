// Tokens rewritten so that the library's parser reads expressions as Jinja does. It forgets parentheses, which decide how
// `~` and comparisons group, and knows neither empty tuples nor tests with arguments. So a group becomes the call of a name
// that no template can write, and `x is test(args)` becomes a filter of such a name, which binds exactly as Jinja's tests
// do. `lower-expression.ts` turns both back.

import { syntaxError } from "./syntax-error.ts";
import {
  closeParen,
  closingPlace,
  identifier,
  isIdentifier,
  openParen,
  pipe,
  splitTokens,
  type Token,
} from "./token.ts";

export const groupName = "()";
export const tupleName = "(,)";
/** Begins the name of a filter that is a test; what follows is the test. */
export const testPrefix = "is ";
export const negatedTestPrefix = "is not ";

const isComma = (token: Token): boolean => token.type === "Comma";

/** Words after which a parenthesis opens a group, and which end an operand. */
const keywords = ["and", "or", "not", "in", "is", "if", "else", "elif", "set", "for", "recursive", "print"];

/** Corrects the tokens of one expression, or of a statement whose targets are parenthesized like expressions. */
export function correctTokens(tokens: readonly Token[]): Token[] {
  const corrected: Token[] = [];
  let index = 0;
  while (index < tokens.length) {
    const token = tokens[index]!;
    if (token.type === "OpenParen") {
      const end = closingPlace(tokens, index);
      const inner = tokens.slice(index + 1, end);
      corrected.push(...(endsOperand(tokens, index) ? call([], inner) : group(inner)));
      index = end + 1;
    } else if (isIdentifier(token, "is") && endsOperand(tokens, index)) {
      index = correctTest(tokens, index, corrected);
    } else {
      if (startsOperand(token, tokens[index - 1]) && endsOperand(tokens, index)) {
        throw syntaxError(`"${token.value}" follows a value without an operator or a comma`);
      }
      corrected.push(token);
      index++;
    }
  }
  return corrected;
}

/** Several expressions between commas are a tuple, even without parentheses. */
export function correctExpression(tokens: readonly Token[]): Token[] {
  return splitTokens(tokens, isComma).length > 1 ? group(tokens) : correctTokens(tokens);
}

function group(inner: readonly Token[]): Token[] {
  const isTuple = inner.length === 0 || splitTokens(inner, isComma).length > 1;
  return call([identifier(isTuple ? tupleName : groupName)], inner);
}

function call(callee: readonly Token[], inner: readonly Token[]): Token[] {
  return [...callee, openParen, ...correctTokens(inner), closeParen];
}

/** Values that follow each other; only texts may, and are then one. The library would let them pass as two. */
function startsOperand(token: Token, before: Token | undefined): boolean {
  if (token.type === "Identifier") return before?.type !== "Dot" && !keywords.includes(token.value);
  if (token.type === "StringLiteral") return before?.type !== "StringLiteral";
  return token.type === "NumericLiteral" ? before?.type !== "Dot" : token.type === "OpenCurlyBracket";
}

/** Whether the token before ends an operand, so that a parenthesis calls it and `is` tests it. */
function endsOperand(tokens: readonly Token[], index: number): boolean {
  const before = tokens[index - 1];
  if (before?.type === "Identifier") return tokens[index - 2]?.type === "Dot" || !keywords.includes(before.value);
  const endings = ["CloseParen", "CloseSquareBracket", "CloseCurlyBracket", "StringLiteral", "NumericLiteral"];
  return before !== undefined && endings.includes(before.type);
}

/** Rewrites the test at `index` and returns the place behind it. */
function correctTest(tokens: readonly Token[], index: number, corrected: Token[]): number {
  const isNegated = isIdentifier(tokens[index + 1], "not");
  let at = index + (isNegated ? 2 : 1);
  const name = tokens[at++];
  if (name?.type !== "Identifier") throw syntaxError("a test has no name");
  corrected.push(pipe, identifier((isNegated ? negatedTestPrefix : testPrefix) + name.value));
  const end = argumentEnd(tokens, at);
  if (tokens[at]?.type === "OpenParen") corrected.push(...call([], tokens.slice(at + 1, end - 1)));
  else if (end > at) corrected.push(...call([], tokens.slice(at, end)));
  at = end;
  return at;
}

/** Where the argument of a test ends: a parenthesized list, or one operand with what hangs on it; `start` for none. Jinja takes
 * any word for an operand here but these three, so that `x is string if y else z` is an error to it. */
function argumentEnd(tokens: readonly Token[], start: number): number {
  const first = tokens[start];
  if (first?.type === "OpenParen") return closingPlace(tokens, start) + 1;
  const isOperand =
    (first?.type === "Identifier" && !["and", "or", "else"].includes(first.value)) ||
    ["StringLiteral", "NumericLiteral", "OpenSquareBracket", "OpenCurlyBracket"].includes(first?.type ?? "");
  if (!isOperand) return start;
  const isBracket = first!.type === "OpenSquareBracket" || first!.type === "OpenCurlyBracket";
  let end = isBracket ? closingPlace(tokens, start) + 1 : start + 1;
  for (;;) {
    const next = tokens[end]?.type;
    if (next === "Dot") end += 2;
    else if (next === "OpenSquareBracket" || next === "OpenParen") end = closingPlace(tokens, end) + 1;
    else return Math.min(end, tokens.length);
  }
}
