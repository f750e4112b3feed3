// CPython 3.11's parser for the arithmetic alphabet, as far as its errors depend on it. It parses twice: when the first pass
// fails, a second one looks for a better complaint ("Perhaps you forgot a comma?"), and which complaint wins depends on the
// order in which it tries things and on how far it reads: reaching the end inside a parenthesis is an error at once.
// So the rules below keep CPython's names, order and memory; they are not how one would write a calculator.

import type { BinaryOperator, ExpressionNode, UnaryOperator } from "./nodes.ts";
import { PythonError } from "../python-error.ts";
import { type ExpressionToken, syntaxError, tokenizeExpression } from "./tokenize.ts";

/** Longest int literal that CPython converts. */
const maxLiteralDigits = 4300;

/** Deepest tree CPython compiles: three times its recursion limit, less what its caller has used (about ten frames). */
const maxDepth = 2970;

/** Deepest recursion of this parser; four a parenthesis, one a `**`. CPython's own is deeper only for chains of `**`. */
const maxNesting = 1200;

/** Throws a `PythonError` with CPython's text for everything that CPython does not compile. */
export function parseExpression(source: string): ExpressionNode {
  const tokens = tokenizeExpression(source);
  const node = new ExpressionParser(tokens, false).parseAll() ?? new ExpressionParser(tokens, true).parseAll();
  if (node === null) throw syntaxError("invalid syntax");
  if (node.depth > maxDepth) throw tooDeep();
  return node;
}

type Memory = Map<number, { readonly node: ExpressionNode | null; readonly end: number }>;

class ExpressionParser {
  readonly #tokens: readonly ExpressionToken[];
  /** Whether to look for the better complaints. */
  #explains: boolean;
  #mark = 0;
  #nesting = 0;
  // As in CPython, what is remembered does not tell whether complaints were looked for.
  readonly #expressions: Memory = new Map();
  readonly #sums: Memory = new Map();
  readonly #factors: Memory = new Map();

  constructor(tokens: readonly ExpressionToken[], explains: boolean) {
    this.#tokens = tokens;
    this.#explains = explains;
  }

  /** `null` when the text is no expression and there is no better complaint than that. */
  parseAll(): ExpressionNode | null {
    const node = this.#expression();
    return node !== null && this.#sees("end") ? node : null;
  }

  #expression(): ExpressionNode | null {
    return this.#remembered(this.#expressions, () => {
      if (this.#explains) this.#complainAboutComma();
      return this.#sum();
    });
  }

  /** Two operands side by side; the second is parsed without looking for complaints. */
  #complainAboutComma(): void {
    const start = this.#mark;
    if (this.#sum() !== null) {
      this.#explains = false;
      const second = this.#sum();
      this.#explains = true;
      if (second !== null && this.#tokens[this.#mark - 1]!.level > 0) {
        throw syntaxError("invalid syntax. Perhaps you forgot a comma?");
      }
    }
    this.#mark = start;
  }

  #sum(): ExpressionNode | null {
    return this.#remembered(this.#sums, () => this.#chain(["+", "-"], () => this.#term()));
  }

  #term(): ExpressionNode | null {
    return this.#chain(["*", "/", "//"], () => this.#factor());
  }

  /** Left-associative operators; a missing right operand ends the chain before its operator. */
  #chain(operators: readonly BinaryOperator[], operand: () => ExpressionNode | null): ExpressionNode | null {
    let left = operand();
    if (left === null) return null;
    for (;;) {
      const operator = operators.find((candidate) => this.#sees(candidate));
      if (operator === undefined) return left;
      const start = this.#mark++;
      const right = operand();
      if (right === null) {
        this.#mark = start;
        return left;
      }
      left = { type: "binary", operator, left, right, depth: Math.max(left.depth, right.depth) + 1 };
    }
  }

  #factor(): ExpressionNode | null {
    return this.#remembered(this.#factors, () => {
      const signs: UnaryOperator[] = [];
      while (this.#sees("+") || this.#sees("-")) signs.push(this.#tokens[this.#mark++]!.text as UnaryOperator);
      let node = this.#power();
      if (node === null) return null;
      for (const operator of signs.toReversed()) {
        node = { type: "unary", operator, operand: node, depth: node.depth + 1 };
      }
      return node;
    });
  }

  #power(): ExpressionNode | null {
    const left = this.#primary();
    if (left === null || !this.#sees("**")) return left;
    const start = this.#mark++;
    const right = this.#factor();
    if (right === null) {
      this.#mark = start;
      return left;
    }
    return { type: "binary", operator: "**", left, right, depth: Math.max(left.depth, right.depth) + 1 };
  }

  #primary(): ExpressionNode | null {
    let node = this.#atom();
    while (node !== null) {
      if (this.#sees(".")) {
        // An attribute: the name behind the point is looked for, and is never there.
        this.#mark++;
        this.#peek();
        this.#mark--;
        return node;
      }
      if (!this.#sees("(")) return node;
      const call = this.#call(node);
      if (call === null) return node;
      node = call;
    }
    return node;
  }

  #call(callee: ExpressionNode): ExpressionNode | null {
    const start = this.#mark;
    this.#comprehension();
    this.#mark = start + 1;
    const unpacking = this.#sees("*") ? "*" : this.#sees("**") ? "**" : "";
    if (unpacking !== "") this.#mark++;
    let argument = this.#expression();
    if (!this.#sees(")")) argument = null;
    if (argument === null) this.#mark = start + 1;
    if (!this.#sees(")")) {
      this.#mark = start;
      return null;
    }
    this.#mark++;
    const depth = Math.max(callee.depth, argument === null ? 0 : argument.depth) + 1;
    return { type: "call", callee, argument, unpacking: argument === null ? "" : unpacking, depth };
  }

  #atom(): ExpressionNode | null {
    const token = this.#peek();
    switch (token.type) {
      case "int":
        this.#mark++;
        return { type: "int", value: intLiteral(token.text), depth: 1 };
      case "float":
        this.#mark++;
        return { type: "float", value: Number(token.text), depth: 1 };
      case "...":
        this.#mark++;
        return { type: "ellipsis", depth: 1 };
      case "(":
        return this.#parenthesized();
      default:
        return null;
    }
  }

  #parenthesized(): ExpressionNode | null {
    const start = this.#mark;
    if (++this.#nesting > maxNesting) throw tooDeep();
    const node = this.#tuple(start) ?? this.#group(start);
    this.#nesting--;
    if (node !== null) return node;
    this.#mark = start;
    this.#comprehension();
    this.#mark = start;
    return null;
  }

  /** Only the empty one exists without commas; `(*1` is read as the beginning of a longer one. */
  #tuple(start: number): ExpressionNode | null {
    this.#mark = start + 1;
    if (this.#sees("*")) {
      this.#mark++;
      this.#sum();
    } else {
      this.#expression();
    }
    this.#mark = start + 1;
    if (!this.#sees(")")) return null;
    this.#mark++;
    return { type: "empty-tuple", depth: 1 };
  }

  #group(start: number): ExpressionNode | null {
    this.#mark = start + 1;
    const node = this.#expression();
    if (node !== null && this.#sees(")")) {
      this.#mark++;
      return node;
    }
    if (this.#explains) {
      this.#complainAboutStar(start, "*", "cannot use starred expression here");
      this.#complainAboutStar(start, "**", "cannot use double starred expression here");
    }
    return null;
  }

  #complainAboutStar(start: number, star: "*" | "**", complaint: string): void {
    this.#mark = start + 1;
    if (!this.#sees(star)) return;
    this.#mark++;
    if (this.#expression() !== null && this.#sees(")")) throw syntaxError(complaint);
  }

  /** A generator expression in parentheses, which this alphabet cannot finish; but it is looked for. */
  #comprehension(): void {
    const start = this.#mark;
    this.#mark = start + 1;
    this.#expression();
    if (this.#explains) {
      this.#mark = start + 1;
      if (this.#sees("*")) {
        this.#mark++;
        this.#expression();
      }
    }
    this.#mark = start;
  }

  #sees(type: ExpressionToken["type"]): boolean {
    return this.#peek().type === type;
  }

  #peek(): ExpressionToken {
    const token = this.#tokens[this.#mark]!;
    if (token.type === "end" && token.level > 0) throw syntaxError("'(' was never closed");
    return token;
  }

  #remembered(memory: Memory, parse: () => ExpressionNode | null): ExpressionNode | null {
    const start = this.#mark;
    const known = memory.get(start);
    if (known !== undefined) {
      this.#mark = known.end;
      return known.node;
    }
    if (++this.#nesting > maxNesting) throw tooDeep();
    const node = parse();
    this.#nesting--;
    if (node === null) this.#mark = start;
    memory.set(start, { node, end: this.#mark });
    return node;
  }
}

function intLiteral(text: string): bigint {
  if (text.length > maxLiteralDigits && !/^0+$/.test(text)) {
    throw syntaxError(
      `Exceeds the limit (${maxLiteralDigits} digits) for integer string conversion: value has ${text.length} digits; ` +
        "use sys.set_int_max_str_digits() to increase the limit - Consider hexadecimal for huge integer literals " +
        "to avoid decimal conversion limits.",
    );
  }
  return BigInt(text);
}

function tooDeep(): PythonError {
  return new PythonError("RecursionError", "maximum recursion depth exceeded during compilation");
}
