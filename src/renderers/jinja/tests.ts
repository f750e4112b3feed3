// Every test of Jinja (`value is name`), by name, but for `is filter`, which the compiler answers.

import { JsonFloat } from "../../python-semantics/json/index.ts";
import { calculate } from "./operations/arithmetic.ts";
import { bindPositional } from "./operations/bind-arguments.ts";
import { areEqual, areSame, contains } from "./operations/equality.ts";
import { isOrdered, type OrderOperator } from "./operations/order.ts";
import { isLower, isUpper } from "./methods/text-questions.ts";
import { PythonDict } from "./values/containers.ts";
import { DictView } from "./values/iterables.ts";
import { isIterable, isSized } from "./values/iteration.ts";
import { numberOf } from "./values/number.ts";
import { pythonError } from "./values/raise.ts";
import { TracedText } from "./values/traced-text.ts";
import { Callable, type CallArguments, Undefined, type Value } from "./values/value.ts";
import { textOf } from "./values/value-text.ts";

type Test = (value: Value, args: CallArguments) => boolean;

function plain(name: string, test: (value: Value) => boolean): readonly [string, Test] {
  return [
    name,
    (value, args) => {
      bindPositional(name, args, 0, 0);
      return test(value);
    },
  ];
}

function pair(test: (value: Value, other: Value) => boolean, ...names: readonly string[]): (readonly [string, Test])[] {
  return names.map((name) => [
    name,
    (value, args) => {
      const other = args.named.size === 1 ? [...args.named.values()][0]! : bindPositional(name, args, 1, 1)[0]!;
      return test(value, other);
    },
  ]);
}

function order(operator: OrderOperator, ...names: readonly string[]): (readonly [string, Test])[] {
  return pair((value, other) => isOrdered(operator, value, other), operator, ...names);
}

const remainderIs = (value: Value, divisor: Value, wanted: number): boolean =>
  areEqual(calculate("%", value, divisor), wanted);

const isInteger = (value: Value): boolean => typeof value === "number" || typeof value === "bigint";

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
  // An undefined value has a length and can be looped over and called, so Jinja's answers are odd but these.
  plain("sequence", (value) => isSized(value) && !(value instanceof DictView)),
  plain("iterable", isIterable),
  plain("callable", (value) => value instanceof Callable || value instanceof Undefined),
  plain("escaped", (value) => value instanceof TracedText && value.isMarkup),
  plain("lower", (value) => isLower(textOf(value).text)),
  plain("upper", (value) => isUpper(textOf(value).text)),
  plain("odd", (value) => remainderIs(value, 2, 1)),
  plain("even", (value) => remainderIs(value, 2, 0)),
  plain("test", (value) => value instanceof TracedText && hasTest(value.text)),
  ...pair((value, divisor) => remainderIs(value, divisor, 0), "divisibleby"),
  ...pair(areSame, "sameas"),
  ...pair((value, container) => contains(container, value), "in"),
  ...pair(areEqual, "==", "eq", "equalto"),
  ...pair((value, other) => !areEqual(value, other), "!=", "ne"),
  ...order(">", "gt", "greaterthan"),
  ...order(">=", "ge"),
  ...order("<", "lt", "lessthan"),
  ...order("<=", "le"),
]);

export function hasTest(name: string): boolean {
  return tests.has(name);
}

/** `value is name(args)`. Throws a "TemplateRuntimeError" for an unknown test. */
export function runTest(name: string, value: Value, args: CallArguments): boolean {
  const test = tests.get(name);
  if (test === undefined) throw pythonError("TemplateRuntimeError", `there is no test "${name}"`);
  return test(value, args);
}
