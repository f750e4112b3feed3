// Expressions to functions of a frame.

import {
  applySign,
  calculate,
  type CallArguments,
  checkTextLength,
  concatStrings,
  contains,
  type IntegerBudget,
  isOrdered,
  isTruthy,
  itemsOf,
  limitError,
  PythonDict,
  pythonEquals,
  PythonError,
  PythonList,
  PythonTuple,
  type PythonValue,
  sliceValue,
  textOf,
  TracedText,
  typeError,
  Undefined,
} from "../../python-semantics/index.ts";
import { filters, unsupportedFilters } from "./filters.ts";
import { unsupportedSyntax } from "./lexer.ts";
import { callValue, getAttribute, getItem } from "./lookup.ts";
import type { ArgumentNodes, CompareOperator, Expression, FilterNode } from "./nodes.ts";
import { type Evaluate, type Frame, maxIntegerBits, read } from "./run.ts";
import { compileName, type Scope } from "./symbols.ts";
import { hasTest, runTest } from "./tests.ts";

/** Integers of templates are small; Python's would only be bounded by the time they take. */
const smallIntegers: IntegerBudget = {
  spend(bits) {
    if (bits > maxIntegerBits) throw limitError(`it computes an integer of more than ${maxIntegerBits} bits`);
  },
};

const noElse = new Undefined("an inline if without else was false");

export function compileExpression(expression: Expression, scope: Scope): Evaluate {
  const compile = (part: Expression): Evaluate => compileExpression(part, scope);
  switch (expression.type) {
    case "constant": {
      const { value } = expression;
      return () => value;
    }
    case "name": {
      const value = compileName(scope, expression.name);
      return (frame) => read(value(frame));
    }
    case "attribute": {
      const { name } = expression;
      const object = compile(expression.object);
      return (frame) => read(getAttribute(object(frame), name));
    }
    case "item": {
      const [object, key] = [compile(expression.object), compile(expression.key)];
      return (frame) => read(getItem(object(frame), key(frame)));
    }
    case "slice": {
      const bound = (part: Expression | null): Evaluate => (part === null ? () => null : compile(part));
      const object = compile(expression.object);
      const [start, stop, step] = [bound(expression.start), bound(expression.stop), bound(expression.step)];
      return (frame) =>
        charged(frame, sliceValue(object(frame), { start: start(frame), stop: stop(frame), step: step(frame) }));
    }
    case "call": {
      const callee = compile(expression.callee);
      const args = compileArguments(expression.args, compile);
      return (frame) => {
        const called = callee(frame);
        return charged(frame, callValue(called, args(frame)));
      };
    }
    case "filter":
      return compileFilter(expression.filter, compile(expression.operand), scope);
    case "test":
      return compileTest(expression, scope);
    case "list":
    case "tuple": {
      const items = expression.items.map(compile);
      const isList = expression.type === "list";
      return (frame) => {
        const values = items.map((item) => item(frame));
        return isList ? PythonList.of(values) : new PythonTuple(values);
      };
    }
    case "dict": {
      const entries = expression.entries.map(({ key, value }) => [compile(key), compile(value)] as const);
      return (frame) => PythonDict.of(entries.map(([key, value]) => ({ key: key(frame), value: value(frame) })));
    }
    case "not": {
      const operand = compile(expression.operand);
      return (frame) => !isTruthy(operand(frame));
    }
    case "sign": {
      const { operator } = expression;
      const operand = compile(expression.operand);
      return (frame) => applySign(operator, operand(frame));
    }
    case "arithmetic": {
      const { operator } = expression;
      const [left, right] = [compile(expression.left), compile(expression.right)];
      return (frame) => charged(frame, calculate(operator, left(frame), right(frame), smallIntegers));
    }
    case "logic": {
      const isAnd = expression.operator === "and";
      const [left, right] = [compile(expression.left), compile(expression.right)];
      return (frame) => {
        const value = left(frame);
        return isTruthy(value) === isAnd ? right(frame) : value;
      };
    }
    case "concat": {
      const parts = expression.parts.map(compile);
      return (frame) => concatenate(frame, parts);
    }
    case "compare":
      return compileComparison(expression, compile);
    case "conditional": {
      // Branches are soft: an unknown filter in one is an error only when it is reached.
      const soft: Scope = { ...scope, isSoft: true };
      const [test, whenTrue] = [compileExpression(expression.test, soft), compileExpression(expression.whenTrue, soft)];
      const whenFalse = expression.whenFalse === null ? () => noElse : compileExpression(expression.whenFalse, soft);
      return (frame) => (isTruthy(test(frame)) ? whenTrue(frame) : whenFalse(frame));
    }
    default:
      return expression satisfies never;
  }
}

/** A filter applied to what `operand` gives. Throws for a filter that there is not. */
export function compileFilter({ name, args }: FilterNode, operand: Evaluate, scope: Scope): Evaluate {
  const filter = filters.get(name);
  if (unsupportedFilters.has(name)) throw unsupportedSyntax(`the filter "${name}"`);
  const given = compileArguments(args, (part) => compileExpression(part, scope));
  if (filter === undefined) return unknown(`there is no filter "${name}"`, scope);
  return (frame) => {
    const value = charged(frame, operand(frame));
    return charged(frame, filter(value, given(frame), frame.run.meter));
  };
}

function compileTest(test: Expression & { readonly type: "test" }, scope: Scope): Evaluate {
  const { name, isNegated } = test;
  const operand = compileExpression(test.operand, scope);
  const given = compileArguments(test.args, (part) => compileExpression(part, scope));
  if (name === "filter") return (frame) => hasFilter(operand(frame)) !== isNegated;
  if (!hasTest(name)) return unknown(`there is no test "${name}"`, scope);
  return (frame) => runTest(name, charged(frame, operand(frame)), given(frame)) !== isNegated;
}

function hasFilter(name: PythonValue): boolean {
  return name instanceof TracedText && (filters.has(name.text) || unsupportedFilters.has(name.text));
}

function unknown(what: string, scope: Scope): Evaluate {
  if (!scope.isSoft) throw new PythonError("TemplateAssertionError", what);
  return () => {
    throw new PythonError("TemplateRuntimeError", what);
  };
}

function compileComparison(
  { first, rest }: Expression & { readonly type: "compare" },
  compile: (part: Expression) => Evaluate,
): Evaluate {
  const start = compile(first);
  const links = rest.map(({ operator, operand }) => ({ operator, operand: compile(operand) }));
  return (frame) => {
    let left = charged(frame, start(frame));
    for (const { operator, operand } of links) {
      const right = charged(frame, operand(frame));
      if (!compare(operator, left, right)) return false;
      left = right;
    }
    return true;
  };
}

function compare(operator: CompareOperator, left: PythonValue, right: PythonValue): boolean {
  switch (operator) {
    case "==":
      return pythonEquals(left, right);
    case "!=":
      return !pythonEquals(left, right);
    case "in":
      return contains(right, left);
    case "not in":
      return !contains(right, left);
    default:
      return isOrdered(operator, left, right);
  }
}

function concatenate(frame: Frame, parts: readonly Evaluate[]): TracedText {
  const texts = parts.map((part) => textOf(part(frame)));
  checkTextLength(texts.reduce((sum, { text }) => sum + text.length, 0));
  return charged(frame, concatStrings(texts));
}

/** Counts the text or the items that an operation reads or makes. */
function charged<T extends PythonValue>(frame: Frame, value: T): T {
  if (value instanceof TracedText) frame.run.meter.work(value.text.length);
  else if (value instanceof PythonList) frame.run.meter.work(value.length);
  return value;
}

const noArguments: CallArguments = Object.freeze({ positional: [], named: new Map<string, PythonValue>() });

/** The arguments of a call, evaluated left to right. Throws a "TypeError" for spreads of the wrong kind. */
export function compileArguments(
  nodes: ArgumentNodes,
  compile: (part: Expression) => Evaluate,
): (frame: Frame) => CallArguments {
  const positional = nodes.positional.map(compile);
  const named = nodes.named.map(({ name, value }) => [name, compile(value)] as const);
  const spread = nodes.spread === null ? null : compile(nodes.spread);
  const namedSpread = nodes.namedSpread === null ? null : compile(nodes.namedSpread);
  if (positional.length === 0 && named.length === 0 && spread === null && namedSpread === null)
    return () => noArguments;
  return (frame) => {
    const values = positional.map((evaluate) => evaluate(frame));
    const byName = new Map<string, PythonValue>(named.map(([name, evaluate]) => [name, evaluate(frame)]));
    if (namedSpread !== null) addNamed(byName, namedSpread(frame));
    return { positional: spread === null ? values : [...values, ...itemsOf(spread(frame))], named: byName };
  };
}

function addNamed(byName: Map<string, PythonValue>, spread: PythonValue): void {
  if (!(spread instanceof PythonDict)) throw typeError("only a dict gives named arguments");
  for (const { key, value } of spread.entries.values()) {
    if (!(key instanceof TracedText) || byName.has(key.text))
      throw typeError("a named argument is no name, or given twice");
    byName.set(key.text, value);
  }
}
