// Statements that the library's parser does not know, rewritten into ones that it does: `generation` (transformers' own) and
// `with` become call blocks of names that no template can write, `recursive` a call around what is looped over.

import { correctExpression, correctTokens } from "./correct-tokens.ts";
import { syntaxError, unsupportedSyntax } from "./syntax-error.ts";
import { closeParen, closingPlace, identifier, isIdentifier, openParen, splitTokens, type Token } from "./token.ts";

export const generationName = "{generation}";
export const withName = "{with}";
export const recursiveName = "{recursive}";

/** The tokens of a whole tag, its delimiters included. */
export function correctTag(type: "statement" | "expression", tokens: readonly Token[]): Token[] {
  if (type === "expression") return expressionTag(tokens);
  const [keyword, ...rest] = tokens;
  // Jinja lets statements end in a colon, as Python's do.
  if (tokens.at(-1)?.type === "Colon") return correctTag(type, tokens.slice(0, -1));
  if (isIdentifier(keyword, "print")) return expressionTag(rest);
  return [{ type: "OpenStatement", value: "{%" }, ...correctStatement(tokens), { type: "CloseStatement", value: "%}" }];
}

function expressionTag(tokens: readonly Token[]): Token[] {
  const inner = correctExpression(tokens);
  return [{ type: "OpenExpression", value: "{{" }, ...inner, { type: "CloseExpression", value: "}}" }];
}

function correctStatement(tokens: readonly Token[]): Token[] {
  const [keyword, ...rest] = tokens;
  switch (keyword?.value) {
    case "generation":
      return [identifier("call"), identifier(generationName), openParen, closeParen];
    case "endgeneration":
    case "endwith":
      return [identifier("endcall")];
    case "with":
      return correctWith(rest);
    case "for":
      return [identifier("for"), ...correctFor(rest)];
    case "set":
      return [identifier("set"), ...correctSet(rest)];
    case "if":
    case "elif":
      return [keyword, ...correctExpression(rest)];
    case "block":
    case "extends":
    case "include":
    case "import":
    case "from":
    case "autoescape":
      throw unsupportedSyntax(`the tag "${keyword.value}"`);
    case "call":
      return [keyword, ...correctCall(rest)];
    default:
      return keyword === undefined ? [] : [keyword, ...correctTokens(rest)];
  }
}

/** `{% with a = 1, b = 2 %}` as `{% call(a, b) {with}(1, 2) %}`. */
function correctWith(tokens: readonly Token[]): Token[] {
  const assignments = tokens.length === 0 ? [] : splitTokens(tokens, ({ type }) => type === "Comma");
  const names: Token[] = [];
  const values: Token[] = [];
  for (const [name, sign, ...value] of assignments) {
    if (name?.type !== "Identifier" || sign?.type !== "Equals") throw syntaxError("a with block assigns to no name");
    const comma: readonly Token[] = names.length === 0 ? [] : [{ type: "Comma", value: "," }];
    names.push(...comma, name);
    values.push(...comma, ...correctTokens(value));
  }
  const call = [identifier("call"), openParen, ...names, closeParen];
  return [...call, identifier(withName), openParen, ...values, closeParen];
}

/** Targets stay as they are; what is looped over may be a tuple, and recursive. */
function correctFor(tokens: readonly Token[]): Token[] {
  const start = tokens.findIndex((token) => isIdentifier(token, "in"));
  const isRecursive = isIdentifier(tokens.at(-1), "recursive");
  const [iterable = [], ...test] = splitTokens(tokens.slice(start + 1, isRecursive ? -1 : undefined), (token) =>
    isIdentifier(token, "if"),
  );
  const looped = correctExpression(iterable);
  return [
    ...tokens.slice(0, start + 1),
    ...(isRecursive ? [identifier(recursiveName), openParen, ...looped, closeParen] : looped),
    ...test.flatMap((part) => [identifier("if"), ...correctTokens(part)]),
  ];
}

function correctSet(tokens: readonly Token[]): Token[] {
  const sign = tokens.findIndex(({ type }) => type === "Equals");
  if (sign === -1) return correctTokens(tokens);
  return [...tokens.slice(0, sign + 1), ...correctExpression(tokens.slice(sign + 1))];
}

/** The parameters of a call block stay as they are, but for their defaults. */
function correctCall(tokens: readonly Token[]): Token[] {
  if (tokens[0]?.type !== "OpenParen") return correctTokens(tokens);
  const end = closingPlace(tokens, 0) + 1;
  const parameters = correctTokens(tokens.slice(1, end - 1));
  return [openParen, ...parameters, closeParen, ...correctTokens(tokens.slice(end))];
}
