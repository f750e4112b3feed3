// Every test of Jinja (`value is name`), by name, except `is filter`, which the compiler answers.

import {
  bindPositional,
  calculate,
  Callable,
  type CallArguments,
  contains,
  DictView,
  isIterable,
  isLower,
  isOrdered,
  isSame,
  isUpper,
  lengthIn,
  numberOf,
  type OrderOperator,
  PythonDict,
  pythonEquals,
  PythonError,
  type PythonValue,
  textOf,
  TracedText,
  Undefined,
} from "../../python-semantics/index.ts";
import { JsonFloat } from "../../python-semantics/json/index.ts";

type Test = (value: PythonValue, args: CallArguments) => boolean;

function plain(name: string, test: (value: PythonValue) => boolean): readonly [string, Test] {
  const check: Test = (value, args) => {
    bindPositional(name, args, 0, 0);
    return test(value);
  };
  return [name, check];
}

type PairTest = (value: PythonValue, other: PythonValue) => boolean;

function pair(test: PairTest, ...names: readonly string[]): (readonly [string, Test])[] {
  return names.map((name) => {
    const check: Test = (value, args) => {
      const other = args.named.size === 1 ? [...args.named.values()][0]! : bindPositional(name, args, 1, 1)[0]!;
      return test(value, other);
    };
    return [name, check];
  });
}

function order(operator: OrderOperator, ...names: readonly string[]): (readonly [string, Test])[] {
  return pair((value, other) => isOrdered(operator, value, other), operator, ...names);
}

const remainderIs = (value: PythonValue, divisor: PythonValue, expected: number): boolean =>
  pythonEquals(calculate("%", value, divisor), expected);

const isInteger = (value: PythonValue): boolean => typeof value === "number" || typeof value === "bigint";

const tests: ReadonlyMap<string, Test> = new Map<string, Test>([
  plain("defined", (value) => !(value instanceof Undefined)),
  plain("undefined", (value) => value instanceof Undefined),
  plain("none", (value) => value === null),
  plain("boolean", (value) => typeof value === "boolean"),
  plain("true", (value) => value === true),
  plain("false", (value) => value === false),
  plain("integer", isInteger),
  plain("float", (value) => value instanceof JsonFloat),
  plain("number", (value) => numberOf(value) !== null),
  plain("string", (value) => value instanceof TracedText),
  plain("mapping", (value) => value instanceof PythonDict),
  // An undefined value has a length and can be looped over and called, so Jinja's answers are
  // these, odd as they are.
  plain("sequence", (value) => lengthIn(value) !== null && !(value instanceof DictView)),
  plain("iterable", isIterable),
  plain("callable", (value) => value instanceof Callable || value instanceof Undefined),
  plain("escaped", (value) => value instanceof TracedText && value.isMarkup),
  plain("lower", (value) => isLower(textOf(value).text)),
  plain("upper", (value) => isUpper(textOf(value).text)),
  plain("odd", (value) => remainderIs(value, 2, 1)),
  plain("even", (value) => remainderIs(value, 2, 0)),
  plain("test", (value) => value instanceof TracedText && hasTest(value.text)),
  ...pair((value, divisor) => remainderIs(value, divisor, 0), "divisibleby"),
  ...pair(isSame, "sameas"),
  ...pair((value, container) => contains(container, value), "in"),
  ...pair(pythonEquals, "==", "eq", "equalto"),
  ...pair((value, other) => !pythonEquals(value, other), "!=", "ne"),
  ...order(">", "gt", "greaterthan"),
  ...order(">=", "ge"),
  ...order("<", "lt", "lessthan"),
  ...order("<=", "le"),
]);

export function hasTest(name: string): boolean {
  return tests.has(name);
}

/** `value is name(args)`. Throws a "TemplateRuntimeError" for an unknown test. */
export function runTest(name: string, value: PythonValue, args: CallArguments): boolean {
  const test = tests.get(name);
  if (test === undefined) throw new PythonError("TemplateRuntimeError", `there is no test "${name}"`);
  return test(value, args);
}
