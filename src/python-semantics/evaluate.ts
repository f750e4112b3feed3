// Python's `float(eval(text))` for arithmetic: without names, other types or other characters. It
// exists because the calculator tools of benchmarks pass their argument to `eval`, errors included.

import { PythonError, typeError } from "./errors.ts";
import { pythonTypeName, JsonFloat, numberOf } from "./json/value.ts";
import { maxIntegerDigits, normalInteger, tooManyDigits } from "./number-text.ts";
import { type IntegerBudget, toFloat, type BinaryOperator } from "./numbers.ts";
import { applySign, calculate } from "./operations.ts";
import { type PythonValue, PythonOpaque, pythonRepr, PythonTuple } from "./values.ts";

/**
 * Maximum size of a computed integer in bits (79,000 digits): the slowest operation on it takes
 * about 5 ms.
 */
const maxIntegerBits = 2 ** 18;
/**
 * Maximum total number of bits that the operations of one expression may produce, so that a long
 * one takes at most 50 ms.
 */
const maxTotalBits = 2 ** 21;
/** Results below this number of bits cost less than reading their operands, so they are not counted. */
const freeBits = 4096;

/**
 * Python has no bound and computes `9**9**9` for minutes; a final result beyond 1,024 bits is an
 * `OverflowError` there, so an integer beyond the bound becomes that error here. Only expressions
 * that divide such a giant down again get another result.
 */
function createBudget(): IntegerBudget {
  let left = maxTotalBits;
  return {
    spend(bits) {
      if (bits > freeBits) left -= bits;
      if (bits > maxIntegerBits || left < 0)
        throw new PythonError("OverflowError", "int too large to convert to float");
    },
  };
}

/**
 * Evaluates digits, `+ - * / // ** ( ) .` and spaces. Throws a `PythonError` with CPython 3.11's
 * message, syntax errors included. Bounded: integers beyond the budget are an `OverflowError`,
 * nesting beyond CPython's own limits a `RecursionError`.
 */
export function evaluateExpression(text: string): number {
  const source = text.replace(/^ +/, "");
  if (source === "") throw new PythonError("SyntaxError", "invalid syntax (<string>, line 0)");
  const value = evaluate(parseArithmetic(source), createBudget());
  const number = numberOf(value);
  if (number !== null) return toFloat(number);
  throw typeError(`float() argument must be a string or a real number, not '${pythonTypeName(value)}'`);
}

/** Walks down the left spine without recursion, because CPython compiles sums of 2,900 terms. */
function evaluate(node: ArithmeticNode, budget: IntegerBudget): PythonValue {
  const spine: ArithmeticNode[] = [];
  for (let step: ArithmeticNode | undefined = node; step !== undefined; step = step.operands[0]) spine.push(step);
  return spine.reduceRight<PythonValue>((value, { operands, combine }) => {
    return combine([value, ...operands.slice(1).map((operand) => evaluate(operand, budget))], budget);
  }, null);
}

// CPython 3.11's parser for the arithmetic alphabet, to the extent that its errors depend on it. It
// parses twice: if the first pass fails, a second one searches for a more specific error ("Perhaps
// you forgot a comma?"), and which error wins depends on the order of attempts and on how far it
// reads: reaching the end inside a parenthesis is an error at once. So the rules below have
// CPython's names, order and memoization, which a calculator would not need.

/**
 * An arithmetic expression. Besides numbers and operators, only accidental forms of this alphabet
 * occur: `()`, `...`, `2(3)`.
 */
type ArithmeticNode = {
  readonly operands: readonly ArithmeticNode[];
  /** Computes the value from those of the operands. */
  readonly combine: (values: readonly PythonValue[], budget: IntegerBudget) => PythonValue;
  readonly depth: number;
};

function nodeOf(operands: readonly ArithmeticNode[], combine: ArithmeticNode["combine"]): ArithmeticNode {
  return { operands, combine, depth: 1 + Math.max(0, ...operands.map(({ depth }) => depth)) };
}

const constant = (value: PythonValue): ArithmeticNode => nodeOf([], () => value);

type ArithmeticToken = {
  readonly type: "int" | "float" | "." | "..." | "(" | ")" | "+" | "-" | "*" | "**" | "/" | "//" | "end";
  readonly text: string;
  /** Number of open parentheses after this token. */
  readonly level: number;
};

/** Maximum nesting of parentheses in CPython (`MAXLEVEL`). */
const maxLevel = 200;

/**
 * Throws a `SyntaxError` for an unmatched parenthesis, leading zeros or too deep nesting, for the
 * first of them in the text.
 */
function tokenize(source: string): ArithmeticToken[] {
  const tokens: ArithmeticToken[] = [];
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

/** Creates the error of any tokenizing or parsing failure, with the location that CPython appends. */
function syntaxError(message: string): PythonError {
  return new PythonError("SyntaxError", `${message} (<string>, line 1)`);
}

const number = /(?:\d+(?:\.\d*)?|\.\d+)/y;

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

function tokenType(text: string): ArithmeticToken["type"] {
  if (/^\d+$/.test(text)) return "int";
  return /\d/.test(text) ? "float" : (text as ArithmeticToken["type"]);
}

/**
 * Maximum depth of a tree that CPython compiles: three times its recursion limit, minus the frames
 * of its caller (about ten).
 */
const maxDepth = 2970;

/**
 * Maximum recursion depth of this parser; four levels per parenthesis, one per `**`. CPython's own
 * is deeper only for chains of `**`.
 */
const maxNesting = 1200;

/** Throws a `PythonError` with CPython's message for any source that CPython does not compile. */
function parseArithmetic(source: string): ArithmeticNode {
  const tokens = tokenize(source);
  const node = new ArithmeticParser(tokens, false).parseAll() ?? new ArithmeticParser(tokens, true).parseAll();
  if (node === null) throw syntaxError("invalid syntax");
  if (node.depth > maxDepth) throw tooDeep();
  return node;
}

function binary(operator: BinaryOperator, left: ArithmeticNode, right: ArithmeticNode): ArithmeticNode {
  return nodeOf([left, right], ([a, b], budget) => calculate(operator, a!, b!, budget));
}

/** Values of this alphabet are never callable; only the error messages differ. */
function callError(callee: PythonValue, argument: PythonValue | undefined, unpacking: "" | "*" | "**"): PythonError {
  const type = argument === undefined ? "" : pythonTypeName(argument);
  const isRefused = argument !== undefined && (unpacking === "**" || (unpacking === "*" && type !== "tuple"));
  if (!isRefused) return typeError(`'${pythonTypeName(callee)}' object is not callable`);
  const kind = unpacking === "*" ? "an iterable" : "a mapping";
  return typeError(`${pythonRepr(callee)} argument after ${unpacking} must be ${kind}, not ${type}`);
}

type Memory = Map<number, { readonly node: ArithmeticNode | null; readonly end: number }>;

class ArithmeticParser {
  readonly #tokens: readonly ArithmeticToken[];
  /** True in the pass that searches for more specific errors. */
  #explains: boolean;
  #mark = 0;
  #nesting = 0;
  // A memoized result does not depend on the pass, as in CPython.
  readonly #expressions: Memory = new Map();
  readonly #sums: Memory = new Map();
  readonly #factors: Memory = new Map();

  constructor(tokens: readonly ArithmeticToken[], explains: boolean) {
    this.#tokens = tokens;
    this.#explains = explains;
  }

  /** `null` if the text is not an expression and a more specific error was not found. */
  parseAll(): ArithmeticNode | null {
    const node = this.#expression();
    return node !== null && this.#sees("end") ? node : null;
  }

  #expression(): ArithmeticNode | null {
    return this.#remembered(this.#expressions, () => {
      if (this.#explains) this.#complainAboutComma();
      return this.#sum();
    });
  }

  /** Detects two adjacent operands; the second is parsed without searching for errors. */
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

  #sum(): ArithmeticNode | null {
    return this.#remembered(this.#sums, () => this.#chain(["+", "-"], () => this.#term()));
  }

  #term(): ArithmeticNode | null {
    return this.#chain(["*", "/", "//"], () => this.#factor());
  }

  /** Parses left-associative operators; a missing right operand ends the chain before its operator. */
  #chain(
    operators: readonly Exclude<BinaryOperator, "%">[],
    operand: () => ArithmeticNode | null,
  ): ArithmeticNode | null {
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
      left = binary(operator, left, right);
    }
  }

  #factor(): ArithmeticNode | null {
    return this.#remembered(this.#factors, () => {
      const signs: ("+" | "-")[] = [];
      while (this.#sees("+") || this.#sees("-")) signs.push(this.#tokens[this.#mark++]!.text as "+" | "-");
      let node = this.#power();
      if (node === null) return null;
      for (const operator of signs.toReversed()) {
        node = nodeOf([node], ([value]) => applySign(operator, value!));
      }
      return node;
    });
  }

  #power(): ArithmeticNode | null {
    const left = this.#primary();
    if (left === null || !this.#sees("**")) return left;
    const start = this.#mark++;
    const right = this.#factor();
    if (right === null) {
      this.#mark = start;
      return left;
    }
    return binary("**", left, right);
  }

  #primary(): ArithmeticNode | null {
    let node = this.#atom();
    while (node !== null) {
      if (this.#sees(".")) {
        // An attribute: the parser looks for a name after the dot, which this alphabet cannot
        // contain.
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

  #call(callee: ArithmeticNode): ArithmeticNode | null {
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
    return nodeOf(argument === null ? [callee] : [callee, argument], ([value, passed]) => {
      throw callError(value!, passed, unpacking);
    });
  }

  #atom(): ArithmeticNode | null {
    const token = this.#peek();
    switch (token.type) {
      case "int":
        this.#mark++;
        return constant(intLiteral(token.text));
      case "float":
        this.#mark++;
        return constant(new JsonFloat(Number(token.text)));
      case "...":
        this.#mark++;
        return constant(new PythonOpaque("ellipsis", "Ellipsis"));
      case "(":
        return this.#parenthesized();
      default:
        return null;
    }
  }

  #parenthesized(): ArithmeticNode | null {
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

  /** Without commas, only the empty tuple exists; `(*1` is parsed as the beginning of a longer one. */
  #tuple(start: number): ArithmeticNode | null {
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
    return constant(new PythonTuple([]));
  }

  #group(start: number): ArithmeticNode | null {
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

  /**
   * A generator expression in parentheses: this alphabet cannot complete one, but the attempt
   * affects errors.
   */
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

  #sees(type: ArithmeticToken["type"]): boolean {
    return this.#peek().type === type;
  }

  #peek(): ArithmeticToken {
    const token = this.#tokens[this.#mark]!;
    if (token.type === "end" && token.level > 0) throw syntaxError("'(' was never closed");
    return token;
  }

  #remembered(memory: Memory, parse: () => ArithmeticNode | null): ArithmeticNode | null {
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

function intLiteral(text: string): number | bigint {
  if (text.length > maxIntegerDigits && !/^0+$/.test(text)) {
    throw syntaxError(
      `${tooManyDigits(text.length)} - Consider hexadecimal for huge integer literals to avoid decimal conversion limits.`,
    );
  }
  return normalInteger(BigInt(text));
}

function tooDeep(): PythonError {
  return new PythonError("RecursionError", "maximum recursion depth exceeded during compilation");
}
