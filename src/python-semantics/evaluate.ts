// Python's `float(eval(text))` for arithmetic: no name, no other type, no other character. It exists because the calculator
// tools of benchmarks hand their argument to `eval`, errors included.

import { type ArithmeticNode, parseArithmetic } from "./arithmetic-syntax.ts";
import { PythonError, typeError } from "./errors.ts";
import { pythonTypeName } from "./json/value.ts";
import { type IntegerBudget, numberOf, toFloat } from "./numbers.ts";
import type { PythonValue } from "./values.ts";

/** Largest integer that is computed, in bits (79,000 digits): the slowest operation on it takes about 5 ms. */
const maxIntegerBits = 2 ** 18;
/** Bits that all operations of one expression may produce together, so that a long one takes no longer than 50 ms. */
const maxTotalBits = 2 ** 21;
/** Results below this size cost less than reading their operands; they are free. */
const freeBits = 4096;

/**
 * Python has no bound and computes `9**9**9` for minutes; every integer beyond 1,024 bits that reaches the end is an
 * `OverflowError` there, so that is what an integer beyond the bound becomes here. Only expressions that divide such a giant
 * down again answer differently.
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
 * Evaluates digits, `+ - * / // ** ( ) .` and blanks. Throws a `PythonError` with CPython 3.11's text, syntax errors
 * included. Bounded: integers that outgrow the budget are an `OverflowError`, nesting beyond CPython's own limits a
 * `RecursionError`.
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
  return spine.reduceRight<PythonValue>((value, { operands, calculate }) => {
    return calculate([value, ...operands.slice(1).map((operand) => evaluate(operand, budget))], budget);
  }, null);
}
