// A parser of Python expressions: enough of the grammar to tell valid from invalid source, with a tree only for what the
// formats look into (literals, calls). Not an interpreter, and not a parser of statements beyond the simplest.

import { PythonError } from "./errors.ts";
import { syntaxError, TokenCursor, tokenize } from "./tokens.ts";
import { PythonOpaque, type PythonValue } from "./values.ts";

/** The tree of an expression, as far as formats look into it. */
export type PythonNode =
  | { readonly type: "constant"; readonly value: PythonValue }
  | { readonly type: "name"; readonly name: string }
  | { readonly type: "list" | "tuple" | "set"; readonly items: readonly PythonNode[] }
  /** A `null` key unpacks another mapping. */
  | { readonly type: "dict"; readonly entries: readonly (readonly [PythonNode | null, PythonNode])[] }
  | {
      readonly type: "call";
      readonly callee: PythonNode;
      readonly keywords: readonly PythonKeyword[];
      readonly hasPositional: boolean;
    }
  | { readonly type: "unary"; readonly operator: string; readonly operand: PythonNode }
  | { readonly type: "binary"; readonly operator: string; readonly left: PythonNode; readonly right: PythonNode }
  /** Anything else that is valid. */
  | { readonly type: "other" };

/** A `null` name unpacks a mapping. */
export type PythonKeyword = { readonly name: string | null; readonly value: PythonNode };

const other: PythonNode = { type: "other" };

/** `ast.parse(text, mode="eval").body`. Throws a `PythonError`. */
export function parseExpression(text: string): PythonNode {
  const parser = new Parser(text);
  const node = parser.expressionList(false);
  parser.expectEnd();
  return node;
}

/** The `value` of the first statement of a module; `null` when the module is empty. Throws a `PythonError`. */
export function parseFirstStatementValue(text: string): PythonNode | null {
  return new Parser(text).moduleValue();
}

/** Binding powers of binary operators, weakest first; all group to the left. */
const binaryLevels: readonly (readonly string[])[] = [
  ["|"],
  ["^"],
  ["&"],
  ["<<", ">>"],
  ["+", "-"],
  ["*", "/", "//", "%", "@"],
];

const comparisons = new Set(["<", ">", "==", ">=", "<=", "!="]);
const augmented = new Set(["+=", "-=", "*=", "/=", "//=", "%=", "@=", "&=", "|=", "^=", ">>=", "<<=", "**="]);

/** Deepest nesting that brackets do not limit (signs, `not`, `lambda`); CPython runs out of memory a little later. */
const maxNesting = 800;

class Parser {
  readonly #cursor: TokenCursor;
  #nesting = 0;

  constructor(text: string) {
    this.#cursor = new TokenCursor(tokenize(text));
  }

  expectEnd(): void {
    while (this.#cursor.peek().type === "newline") this.#cursor.advance();
    if (this.#cursor.peek().type !== "end") throw syntaxError("invalid syntax");
  }

  moduleValue(): PythonNode | null {
    let first: PythonNode | null = null;
    let count = 0;
    while (this.#cursor.peek().type !== "end") {
      const token = this.#cursor.peek();
      if (token.type === "newline") {
        this.#cursor.advance();
        continue;
      }
      const value = this.#statement();
      if (count++ === 0) first = value;
      if (this.#cursor.takes(";")) continue;
      const end = this.#cursor.peek();
      if (end.type !== "newline" || end.isIndented) throw syntaxError("invalid syntax");
    }
    return first;
  }

  /** An expression, or assignments to it; the value assigned counts. `null`: a declaration without a value. */
  #statement(): PythonNode | null {
    if (this.#cursor.takesKeyword("return")) return this.expressionList(true);
    let value = this.expressionList(true);
    if (this.#cursor.takes(":")) {
      this.#requireTarget(value);
      this.#expression();
      return this.#cursor.takes("=") ? this.expressionList(true) : null;
    }
    const operator = this.#cursor.peek();
    if (operator.type === "operator" && augmented.has(operator.text)) {
      this.#requireTarget(value);
      this.#cursor.advance();
      return this.expressionList(true);
    }
    while (this.#cursor.takes("=")) {
      this.#requireTarget(value);
      value = this.expressionList(true);
    }
    return value;
  }

  #requireTarget(node: PythonNode): void {
    if (node.type === "constant" || node.type === "call") throw syntaxError("cannot assign");
  }

  /** One expression, or several with commas: a tuple. */
  expressionList(allowsStar: boolean): PythonNode {
    const first = this.#listItem(allowsStar);
    if (!this.#cursor.sees(",")) return first;
    const items = [first];
    while (this.#cursor.takes(",")) {
      if (!this.#startsExpression(allowsStar)) break;
      items.push(this.#listItem(allowsStar));
    }
    return { type: "tuple", items };
  }

  #listItem(allowsStar: boolean): PythonNode {
    if (allowsStar && this.#cursor.takes("*")) {
      this.#binary(0);
      return other;
    }
    return this.#expression();
  }

  #expression(): PythonNode {
    return this.#nested(() => {
      if (this.#cursor.takesKeyword("lambda")) return this.#lambda();
      const value = this.#disjunction();
      if (!this.#cursor.takesKeyword("if")) return value;
      this.#disjunction();
      this.#cursor.expectKeyword("else");
      this.#expression();
      return other;
    });
  }

  #nested(parse: () => PythonNode): PythonNode {
    if (++this.#nesting > maxNesting) throw new PythonError("MemoryError", "nested too deep");
    const node = parse();
    this.#nesting--;
    return node;
  }

  #lambda(): PythonNode {
    while (!this.#cursor.takes(":")) {
      if (this.#cursor.takes("*") || this.#cursor.takes("**") || this.#cursor.takes(",") || this.#cursor.takes("/"))
        continue;
      this.#cursor.expectName();
      if (this.#cursor.takes("=")) this.#expression();
      if (!this.#cursor.sees(",") && !this.#cursor.sees(":")) throw syntaxError("invalid syntax");
    }
    this.#expression();
    return other;
  }

  #disjunction(): PythonNode {
    let node = this.#conjunction();
    while (this.#cursor.takesKeyword("or")) {
      this.#conjunction();
      node = other;
    }
    return node;
  }

  #conjunction(): PythonNode {
    let node = this.#inversion();
    while (this.#cursor.takesKeyword("and")) {
      this.#inversion();
      node = other;
    }
    return node;
  }

  #inversion(): PythonNode {
    if (!this.#cursor.takesKeyword("not")) return this.#comparison();
    return { type: "unary", operator: "not", operand: this.#nested(() => this.#inversion()) };
  }

  #comparison(): PythonNode {
    let node = this.#binary(0);
    while (this.#takesComparison()) {
      this.#binary(0);
      node = other;
    }
    return node;
  }

  #takesComparison(): boolean {
    const token = this.#cursor.peek();
    if (token.type === "operator" && comparisons.has(token.text)) {
      this.#cursor.advance();
      return true;
    }
    if (this.#cursor.takesKeyword("in")) return true;
    if (this.#cursor.takesKeyword("is")) {
      this.#cursor.takesKeyword("not");
      return true;
    }
    if (!this.#cursor.seesKeyword("not")) return false;
    this.#cursor.advance();
    this.#cursor.expectKeyword("in");
    return true;
  }

  #binary(level: number): PythonNode {
    const operators = binaryLevels[level];
    if (operators === undefined) return this.#unary();
    let left = this.#binary(level + 1);
    for (;;) {
      const token = this.#cursor.peek();
      if (token.type !== "operator" || !operators.includes(token.text)) return left;
      this.#cursor.advance();
      left = { type: "binary", operator: token.text, left, right: this.#binary(level + 1) };
    }
  }

  #unary(): PythonNode {
    for (const operator of ["-", "+", "~"]) {
      if (this.#cursor.takes(operator)) return { type: "unary", operator, operand: this.#nested(() => this.#unary()) };
    }
    const base = this.#awaited();
    if (!this.#cursor.takes("**")) return base;
    this.#nested(() => this.#unary());
    return other;
  }

  #awaited(): PythonNode {
    const isAwaited = this.#cursor.takesKeyword("await");
    let node = this.#atom();
    for (;;) {
      if (this.#cursor.takes("(")) node = this.#callOf(node);
      else if (this.#cursor.takes("[")) node = this.#subscript();
      else if (this.#cursor.takes(".")) {
        this.#cursor.expectName();
        node = other;
      } else return isAwaited ? other : node;
    }
  }

  #subscript(): PythonNode {
    if (this.#cursor.sees("]")) throw syntaxError("invalid syntax");
    for (;;) {
      if (!this.#cursor.takes("*")) {
        if (!this.#cursor.sees(":")) this.#namedExpression();
        for (let colons = 0; colons < 2 && this.#cursor.takes(":"); colons++) {
          if (!this.#cursor.sees("]") && !this.#cursor.sees(",") && !this.#cursor.sees(":")) this.#expression();
        }
      } else this.#binary(0);
      const hasComma = this.#cursor.takes(",");
      if (this.#cursor.takes("]")) return other;
      if (!hasComma) throw syntaxError("invalid syntax");
    }
  }

  #callOf(callee: PythonNode): PythonNode {
    const keywords: PythonKeyword[] = [];
    let hasPositional = false;
    let hasUnpacked = false;
    while (!this.#cursor.takes(")")) {
      if (this.#cursor.takes("**")) {
        keywords.push({ name: null, value: this.#expression() });
        hasUnpacked = true;
      } else if (this.#cursor.takes("*")) {
        if (hasUnpacked) throw syntaxError("* behind **");
        this.#expression();
        hasPositional = true;
      } else {
        const name = this.#keywordName();
        if (name !== null) {
          keywords.push({ name, value: this.#expression() });
        } else {
          this.#namedExpression();
          if (this.#cursor.sees("for") || this.#cursor.seesKeyword("for") || this.#cursor.seesKeyword("async")) {
            this.#comprehension();
            if (hasPositional || keywords.length > 0 || !this.#cursor.sees(")")) throw syntaxError("invalid syntax");
          } else if (keywords.length > 0) {
            throw syntaxError("an argument without name behind named ones");
          }
          hasPositional = true;
        }
      }
      if (!this.#cursor.takes(",") && !this.#cursor.sees(")")) throw syntaxError("invalid syntax");
    }
    return { type: "call", callee, keywords, hasPositional };
  }

  /** Takes `name =`, not `name ==`; `null` when the argument is positional. */
  #keywordName(): string | null {
    const token = this.#cursor.peek();
    const following = this.#cursor.peekAfter();
    if (following.type !== "operator" || following.text !== "=") return null;
    if (token.type !== "name") throw syntaxError("a value assigned to no name");
    this.#cursor.advance(2);
    return token.text;
  }

  #atom(): PythonNode {
    const token = this.#cursor.peek();
    switch (token.type) {
      case "constant":
        this.#cursor.advance();
        return { type: "constant", value: token.value };
      case "name":
        this.#cursor.advance();
        return { type: "name", name: token.text };
      case "string":
      case "bytes":
        return this.#strings(token.type);
      case "operator":
        if (this.#cursor.takes("(")) return this.#parenthesized();
        if (this.#cursor.takes("[")) return this.#bracketed();
        if (this.#cursor.takes("{")) return this.#braced();
        throw syntaxError("invalid syntax");
      default:
        throw syntaxError("invalid syntax");
    }
  }

  #strings(type: "string" | "bytes"): PythonNode {
    let joined: string | null = "";
    for (
      let token = this.#cursor.peek();
      token.type === "string" || token.type === "bytes";
      token = this.#cursor.peek()
    ) {
      if (token.type !== type) throw syntaxError("bytes beside text");
      joined = joined === null || token.value === null ? null : joined + token.value;
      this.#cursor.advance();
    }
    if (joined === null) return other;
    return { type: "constant", value: type === "bytes" ? new PythonOpaque("bytes", bytesRepr(joined)) : joined };
  }

  #parenthesized(): PythonNode {
    if (this.#cursor.takes(")")) return { type: "tuple", items: [] };
    if (this.#cursor.takesKeyword("yield")) {
      this.#cursor.takesKeyword("from");
      if (!this.#cursor.sees(")")) this.expressionList(true);
      this.#cursor.expect(")");
      return other;
    }
    const { items, hasComma, isComprehension } = this.#items(")");
    if (isComprehension) return other;
    if (hasComma || items.length !== 1) return { type: "tuple", items };
    const [only] = items;
    if (only === starred) throw syntaxError("* before a single value");
    return only ?? other;
  }

  #bracketed(): PythonNode {
    const { items, isComprehension } = this.#items("]");
    return isComprehension ? other : { type: "list", items };
  }

  #items(closing: string): { items: PythonNode[]; hasComma: boolean; isComprehension: boolean } {
    const items: PythonNode[] = [];
    let hasComma = false;
    while (!this.#cursor.takes(closing)) {
      if (items.length > 0 && !hasComma) throw syntaxError("invalid syntax");
      items.push(this.#starredOrNamed());
      if (items.length === 1 && (this.#cursor.seesKeyword("for") || this.#cursor.seesKeyword("async"))) {
        this.#comprehension();
        this.#cursor.expect(closing);
        return { items: [], hasComma: false, isComprehension: true };
      }
      const takesComma = this.#cursor.takes(",");
      if (!takesComma && !this.#cursor.sees(closing)) throw syntaxError("invalid syntax");
      hasComma ||= takesComma;
    }
    return { items, hasComma, isComprehension: false };
  }

  #starredOrNamed(): PythonNode {
    if (!this.#cursor.takes("*")) return this.#namedExpression();
    this.#binary(0);
    return starred;
  }

  #namedExpression(): PythonNode {
    const token = this.#cursor.peek();
    const following = this.#cursor.peekAfter();
    if (token.type === "name" && following.type === "operator" && following.text === ":=") {
      this.#cursor.advance(2);
      this.#expression();
      return other;
    }
    return this.#expression();
  }

  #braced(): PythonNode {
    const entries: [PythonNode | null, PythonNode][] = [];
    const items: PythonNode[] = [];
    let kind: "dict" | "set" | null = null;
    while (!this.#cursor.takes("}")) {
      if (this.#cursor.takes("**")) {
        if (kind === "set") throw syntaxError("invalid syntax");
        kind = "dict";
        entries.push([null, this.#binary(0)]);
      } else {
        const first = this.#starredOrNamed();
        const isEntry = first !== starred && this.#cursor.takes(":");
        if (kind !== null && (kind === "dict") !== isEntry) throw syntaxError("invalid syntax");
        kind = isEntry ? "dict" : "set";
        if (isEntry) entries.push([first, this.#expression()]);
        else items.push(first);
        if (
          entries.length + items.length === 1 &&
          (this.#cursor.seesKeyword("for") || this.#cursor.seesKeyword("async"))
        ) {
          this.#comprehension();
          this.#cursor.expect("}");
          return other;
        }
      }
      if (!this.#cursor.takes(",") && !this.#cursor.sees("}")) throw syntaxError("invalid syntax");
    }
    return kind === "set" ? { type: "set", items } : { type: "dict", entries };
  }

  #comprehension(): void {
    while (this.#cursor.seesKeyword("for") || this.#cursor.seesKeyword("async")) {
      this.#cursor.takesKeyword("async");
      this.#cursor.expectKeyword("for");
      do {
        if (this.#cursor.seesKeyword("in")) break;
        this.#cursor.takes("*");
        this.#binary(0);
      } while (this.#cursor.takes(","));
      this.#cursor.expectKeyword("in");
      this.#disjunction();
      while (this.#cursor.takesKeyword("if")) this.#disjunction();
    }
  }

  #startsExpression(allowsStar: boolean): boolean {
    const token = this.#cursor.peek();
    if (token.type === "newline" || token.type === "end") return false;
    if (token.type === "keyword") return ["lambda", "not", "await"].includes(token.text);
    if (token.type !== "operator") return true;
    return ["(", "[", "{", "-", "+", "~"].includes(token.text) || (allowsStar && token.text === "*");
  }
}

const starred: PythonNode = { type: "other" };

function bytesRepr(value: string): string {
  const quote = value.includes("'") && !value.includes('"') ? '"' : "'";
  let body = "";
  for (const character of value) {
    const code = character.charCodeAt(0);
    if (character === quote || character === "\\") body += `\\${character}`;
    else if (character === "\n") body += "\\n";
    else if (character === "\r") body += "\\r";
    else if (character === "\t") body += "\\t";
    else body += code < 0x20 || code >= 0x7f ? `\\x${code.toString(16).padStart(2, "0")}` : character;
  }
  return `b${quote}${body}${quote}`;
}
