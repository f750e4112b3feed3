// A parser of Python expressions: enough of the grammar to distinguish valid from invalid source,
// with a tree only for the parts that formats use (literals, calls). It is not an interpreter, and
// parses only the simplest statements.

import { PythonError } from "./errors.ts";
import { stringRepr } from "./string-repr.ts";
import { type PythonToken, syntaxError, tokenize } from "./tokens.ts";
import { PythonOpaque, type PythonValue } from "./values.ts";

/** The tree of an expression, with the detail that formats need. */
export type PythonNode =
  | { readonly type: "constant"; readonly value: PythonValue }
  | { readonly type: "name"; readonly name: string }
  | { readonly type: "attribute"; readonly object: PythonNode; readonly name: string }
  /** An f-string without replacement fields. */
  | { readonly type: "joined"; readonly text: string }
  | { readonly type: "list" | "tuple" | "set"; readonly items: readonly PythonNode[] }
  /** A `null` key unpacks another mapping. */
  | { readonly type: "dict"; readonly entries: readonly (readonly [PythonNode | null, PythonNode])[] }
  | {
      readonly type: "call";
      readonly callee: PythonNode;
      readonly keywords: readonly PythonKeyword[];
      readonly hasPositional: boolean;
    }
  | { readonly type: "unary"; readonly operator: "+" | "-"; readonly operand: PythonNode }
  | { readonly type: "binary"; readonly operator: "+" | "-"; readonly left: PythonNode; readonly right: PythonNode }
  /** Any other valid expression. */
  | { readonly type: "other" };

/** A `null` name unpacks a mapping. */
export type PythonKeyword = { readonly name: string | null; readonly value: PythonNode };

const other: PythonNode = { type: "other" };
const starred: PythonNode = { type: "other" };

/** `ast.parse(text, mode="eval").body`. Throws a `PythonError`. */
export function parseExpression(text: string): PythonNode {
  return new Parser(text).only();
}

/**
 * The `value` of the first statement of a module; `null` if the module is empty. Throws a
 * `PythonError`.
 */
export function parseFirstStatementValue(text: string): PythonNode | null {
  return new Parser(text).moduleValue();
}

const bitwise = new Set(["|", "^", "&", "<<", ">>", "+", "-", "*", "/", "//", "%", "@", "**"]);
const comparing = new Set(["<", ">", "==", ">=", "<=", "!=", "in", "is", "and", "or"]);
const augmented = ["+=", "-=", "*=", "/=", "//=", "%=", "@=", "&=", "|=", "^=", ">>=", "<<=", "**="];

/**
 * Maximum nesting that brackets do not limit (signs, `not`, `lambda`); CPython runs out of memory
 * slightly later.
 */
const maxNesting = 800;

class Parser {
  readonly #tokens: readonly PythonToken[];
  #at = 0;
  #nesting = 0;

  constructor(text: string) {
    this.#tokens = tokenize(text);
  }

  only(): PythonNode {
    const node = this.#expressionList(false);
    while (this.#peek().type === "newline") this.#at++;
    if (this.#peek().type !== "end") throw syntaxError("invalid syntax");
    return node;
  }

  moduleValue(): PythonNode | null {
    let first: PythonNode | null | undefined;
    for (let token = this.#peek(); token.type !== "end"; token = this.#peek()) {
      if (token.type === "newline") {
        this.#at++;
        continue;
      }
      const value = this.#statement();
      if (first === undefined) first = value;
      if (this.#takes(";")) continue;
      const end = this.#peek();
      if (end.type !== "newline" || end.isIndented) throw syntaxError("invalid syntax");
    }
    return first ?? null;
  }

  /**
   * Parses an expression, or assignments to it, and returns the assigned value. `null` for a
   * declaration without a value.
   */
  #statement(): PythonNode | null {
    if (this.#takes("return")) return this.#expressionList(true);
    let value = this.#expressionList(true);
    const takesAssignment = (...operators: readonly string[]): boolean => {
      if (!this.#takes(...operators)) return false;
      if (value.type === "constant" || value.type === "call") throw syntaxError("cannot assign");
      return true;
    };
    if (takesAssignment(":")) {
      this.#expression();
      return this.#takes("=") ? this.#expressionList(true) : null;
    }
    if (takesAssignment(...augmented)) return this.#expressionList(true);
    while (takesAssignment("=")) value = this.#expressionList(true);
    return value;
  }

  /** Parses one expression, or several with commas: a tuple. */
  #expressionList(allowsStar: boolean): PythonNode {
    const starts = ["lambda", "not", "await", "(", "[", "{", "-", "+", "~", ...(allowsStar ? ["*"] : [])];
    const first = this.#listItem(allowsStar);
    if (!this.#sees(",")) return first;
    const items = [first];
    while (this.#takes(",")) {
      const { type } = this.#peek();
      if (type === "newline" || type === "end" || (type === "symbol" && !this.#sees(...starts))) break;
      items.push(this.#listItem(allowsStar));
    }
    return { type: "tuple", items };
  }

  #listItem(allowsStar: boolean): PythonNode {
    if (!allowsStar || !this.#takes("*")) return this.#expression();
    this.#operation(true);
    return other;
  }

  #expression(): PythonNode {
    this.#goDeeper();
    let node: PythonNode = other;
    if (this.#takes("lambda")) {
      this.#parameters();
      this.#expression();
    } else {
      node = this.#operation();
      if (this.#takes("if")) {
        this.#operation();
        this.#expect("else");
        this.#expression();
        node = other;
      }
    }
    this.#nesting--;
    return node;
  }

  #goDeeper(): void {
    if (++this.#nesting > maxNesting) throw new PythonError("MemoryError", "nested too deep");
  }

  /** The parameters of a lambda and the colon after them. */
  #parameters(): void {
    while (!this.#takes(":")) {
      if (this.#takes("*", "**", ",", "/")) continue;
      this.#expectName();
      if (this.#takes("=")) this.#expression();
      if (!this.#sees(",", ":")) throw syntaxError("invalid syntax");
    }
  }

  /**
   * Parses operands with operators between them; precedence does not affect validity. `isBitwise`
   * excludes comparisons, `and`, `or` and `not`.
   */
  #operation(isBitwise = false): PythonNode {
    const outer = this.#nesting;
    /**
     * Nesting level including the `not` before a comparison, but excluding the signs and powers in
     * it.
     */
    let level = outer;
    let node: PythonNode | null = null;
    for (let operator: string | null = "or"; operator !== null;) {
      if (operator === "**") this.#goDeeper();
      else this.#nesting = level;
      let isNegated = false;
      if (!isBitwise && (operator === "and" || operator === "or")) {
        this.#nesting = outer;
        while (this.#takes("not")) {
          this.#goDeeper();
          isNegated = true;
        }
        level = this.#nesting;
      }
      const operand = this.#signed();
      const isSum: boolean = operator === "+" || operator === "-";
      if (node === null) node = isNegated ? other : operand;
      else if (isSum) node = { type: "binary", operator: operator as "+" | "-", left: node, right: operand };
      else node = other;
      operator = this.#takeOperator(isBitwise);
    }
    this.#nesting = outer;
    return node!;
  }

  /** `null` if the next token is not an operator. */
  #takeOperator(isBitwise: boolean): string | null {
    const token = this.#peek();
    if (token.type !== "symbol") return null;
    const { text } = token;
    if (!isBitwise && this.#takes("not")) {
      this.#expect("in");
      return "in";
    }
    if (!bitwise.has(text) && (isBitwise || !comparing.has(text))) return null;
    this.#at++;
    if (text === "is") this.#takes("not");
    return text;
  }

  #signed(): PythonNode {
    const start = this.#at;
    while (this.#takes("-", "+", "~")) this.#goDeeper();
    const signs = this.#tokens.slice(start, this.#at) as { readonly text: "-" | "+" | "~" }[];
    return signs.reduceRight<PythonNode>(
      (operand, { text }) => (text === "~" ? other : { type: "unary", operator: text, operand }),
      this.#primary(),
    );
  }

  #primary(): PythonNode {
    const isAwaited = this.#takes("await");
    let node = this.#atom();
    for (;;) {
      if (this.#takes("(")) {
        node = this.#callOf(node);
      } else if (this.#takes("[")) {
        node = this.#subscript();
      } else if (this.#takes(".")) {
        node = { type: "attribute", object: node, name: this.#expectName() };
      } else {
        return isAwaited ? other : node;
      }
    }
  }

  #subscript(): PythonNode {
    if (this.#sees("]")) throw syntaxError("invalid syntax");
    this.#separated("]", () => {
      if (this.#takes("*")) {
        this.#operation(true);
        return;
      }
      if (!this.#sees(":")) this.#namedExpression();
      for (let colons = 0; colons < 2 && this.#takes(":"); colons++) {
        if (!this.#sees("]", ",", ":")) this.#expression();
      }
    });
    return other;
  }

  #callOf(callee: PythonNode): PythonNode {
    const keywords: PythonKeyword[] = [];
    let hasPositional = false;
    this.#separated(")", () => {
      if (this.#takes("**")) {
        keywords.push({ name: null, value: this.#expression() });
      } else if (this.#takes("*")) {
        if (keywords.some(({ name }) => name === null)) throw syntaxError("* behind **");
        this.#expression();
        hasPositional = true;
      } else if (this.#seesBefore("=")) {
        const name = this.#expectName();
        this.#expect("=");
        keywords.push({ name, value: this.#expression() });
      } else {
        this.#namedExpression();
        const isAlone = !hasPositional && keywords.length === 0;
        if (this.#takesComprehension(")") ? !isAlone : keywords.length > 0) throw syntaxError("invalid syntax");
        hasPositional = true;
      }
    });
    return { type: "call", callee, keywords, hasPositional };
  }

  #atom(): PythonNode {
    const token = this.#peek();
    switch (token.type) {
      case "constant":
        this.#at++;
        return { type: "constant", value: token.value };
      case "name":
        this.#at++;
        return { type: "name", name: token.text };
      case "string":
      case "bytes":
        return this.#strings(token.type);
      default:
        if (this.#takes("(")) return this.#parenthesized();
        if (this.#takes("[")) {
          const items = this.#items("]").items;
          return items === null ? other : { type: "list", items };
        }
        if (this.#takes("{")) return this.#braced();
        throw syntaxError("invalid syntax");
    }
  }

  #strings(type: "string" | "bytes"): PythonNode {
    let joined: string | null = "";
    let isFormatted = false;
    for (let token = this.#peek(); token.type === "string" || token.type === "bytes"; token = this.#peek()) {
      if (token.type !== type) throw syntaxError("bytes beside text");
      joined = joined === null || token.value === null ? null : joined + token.value;
      isFormatted ||= token.type === "string" && token.isFormatted;
      this.#at++;
    }
    if (joined === null) return other;
    if (isFormatted) return { type: "joined", text: joined };
    return { type: "constant", value: type === "bytes" ? new PythonOpaque("bytes", bytesRepr(joined)) : joined };
  }

  #parenthesized(): PythonNode {
    if (this.#takes("yield")) {
      this.#takes("from");
      if (!this.#sees(")")) this.#expressionList(true);
      this.#expect(")");
      return other;
    }
    const { items, hasComma } = this.#items(")");
    if (items === null) return other;
    const [only] = items;
    if (hasComma || only === undefined) return { type: "tuple", items };
    if (only === starred) throw syntaxError("* before a single value");
    return only;
  }

  /** The content of brackets; `items` is `null` for a comprehension. */
  #items(closing: string): { readonly items: readonly PythonNode[] | null; readonly hasComma: boolean } {
    const items: PythonNode[] = [];
    let isComprehension = false;
    const hasComma = this.#separated(closing, () => {
      items.push(this.#starredOrNamed());
      isComprehension ||= items.length === 1 && this.#takesComprehension(closing);
    });
    return { items: isComprehension ? null : items, hasComma };
  }

  #braced(): PythonNode {
    const entries: [PythonNode | null, PythonNode][] = [];
    const items: PythonNode[] = [];
    let isComprehension = false;
    this.#separated("}", () => {
      if (this.#takes("**")) {
        entries.push([null, this.#operation(true)]);
      } else {
        const first = this.#starredOrNamed();
        if (first !== starred && this.#takes(":")) entries.push([first, this.#expression()]);
        else items.push(first);
        isComprehension ||= entries.length + items.length === 1 && this.#takesComprehension("}");
      }
      if (entries.length > 0 && items.length > 0) throw syntaxError("invalid syntax");
    });
    if (isComprehension) return other;
    return items.length > 0 ? { type: "set", items } : { type: "dict", entries };
  }

  /**
   * Parses comma-separated items up to a closing bracket, and consumes it. True if there was a
   * comma.
   */
  #separated(closing: string, readItem: () => void): boolean {
    let hasComma = false;
    while (!this.#takes(closing)) {
      readItem();
      if (this.#takes(",")) hasComma = true;
      else if (!this.#sees(closing)) throw syntaxError("invalid syntax");
    }
    return hasComma;
  }

  #starredOrNamed(): PythonNode {
    if (!this.#takes("*")) return this.#namedExpression();
    this.#operation(true);
    return starred;
  }

  #namedExpression(): PythonNode {
    if (this.#peek().type !== "name" || !this.#seesBefore(":=")) return this.#expression();
    this.#at += 2;
    this.#expression();
    return other;
  }

  /**
   * Consumes the clauses after a value, up to the closing bracket, which must follow. False if
   * there are none.
   */
  #takesComprehension(closing: string): boolean {
    if (!this.#sees("for", "async")) return false;
    while (this.#sees("for", "async")) {
      this.#takes("async");
      this.#expect("for");
      do {
        if (this.#sees("in")) break;
        this.#takes("*");
        this.#operation(true);
      } while (this.#takes(","));
      this.#expect("in");
      this.#operation();
      while (this.#takes("if")) this.#operation();
    }
    if (!this.#sees(closing)) throw syntaxError("invalid syntax");
    return true;
  }

  #peek(): PythonToken {
    return this.#tokens[this.#at] ?? { type: "end" };
  }

  #sees(...symbols: readonly string[]): boolean {
    const token = this.#peek();
    return token.type === "symbol" && symbols.includes(token.text);
  }

  /** True if the symbol follows the current token. */
  #seesBefore(symbol: string): boolean {
    const following = this.#tokens[this.#at + 1];
    return following?.type === "symbol" && following.text === symbol;
  }

  #takes(...symbols: readonly string[]): boolean {
    const isSeen = this.#sees(...symbols);
    if (isSeen) this.#at++;
    return isSeen;
  }

  #expect(symbol: string): void {
    if (!this.#takes(symbol)) throw syntaxError("invalid syntax");
  }

  #expectName(): string {
    const token = this.#peek();
    if (token.type !== "name") throw syntaxError("invalid syntax");
    this.#at++;
    return token.text;
  }
}

/** `repr(bytes)`; each character stands for a byte. */
function bytesRepr(value: string): string {
  return `b${stringRepr(value).replace(/[\x80-\xff]/g, (byte) => `\\x${byte.charCodeAt(0).toString(16)}`)}`;
}
