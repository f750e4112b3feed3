// Expressions, one function each: the variables it reads, and the value it computes. First read,
// then compiled to a function of a frame, once it is known which variables its names mean.

import {
  applySign,
  type BinaryOperator,
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
  type OrderOperator,
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
import { type Evaluate, type Frame, maxIntegerBits, read } from "./run.ts";
import { nameTarget, type Scope, type Target, tupleTarget } from "./scope.ts";
import { hasTest, runTest } from "./tests.ts";

/**
 * Variables that a part of a template reads. A tree, not a list of names at every part, because a
 * hostile template nests thousands.
 */
export type Reading = {
  /** The variable that the part itself reads; `null` if none. */
  readonly name: string | null;
  readonly parts: readonly Reading[];
};

/** Names of the variables that are read, in the order of the template. */
export function namesIn(readings: readonly Reading[]): ReadonlySet<string> {
  const names = new Set<string>();
  const open = readings.toReversed();
  for (let reading = open.pop(); reading !== undefined; reading = open.pop()) {
    if (reading.name !== null) names.add(reading.name);
    for (let index = reading.parts.length - 1; index >= 0; index--) open.push(reading.parts[index]!);
  }
  return names;
}

export type Expression = Reading & {
  readonly compile: (scope: Scope) => Evaluate;
  /** The expression as the target of an assignment; `null` if it cannot be one. */
  readonly target: Target | null;
  /** The parts of a call; `null` for other expressions. */
  readonly call: Call | null;
};

export type Call = { readonly callee: Expression; readonly args: Arguments };

export type Arguments = Reading & {
  readonly compile: (scope: Scope) => (frame: Frame) => CallArguments;
};

/** A filter with its arguments, to be applied to a value. */
export type FilterUse = Reading & {
  readonly compile: (operand: Evaluate, scope: Scope) => Evaluate;
};

function expression(parts: readonly Reading[], compile: Expression["compile"]): Expression {
  return { name: null, parts, compile, target: null, call: null };
}

export function constant(value: PythonValue): Expression {
  return expression([], () => () => value);
}

function unary(part: Expression, apply: (value: PythonValue, frame: Frame) => PythonValue): Expression {
  return expression([part], (scope) => {
    const value = part.compile(scope);
    return (frame) => apply(value(frame), frame);
  });
}

function binary(
  parts: readonly [Expression, Expression],
  apply: (left: PythonValue, right: PythonValue, frame: Frame) => PythonValue,
): Expression {
  return expression(parts, (scope) => {
    const [left, right] = [parts[0].compile(scope), parts[1].compile(scope)];
    return (frame) => apply(left(frame), right(frame), frame);
  });
}

function nary(
  parts: readonly Expression[],
  apply: (values: readonly PythonValue[], frame: Frame) => PythonValue,
): Expression {
  return expression(parts, (scope) => {
    const values = parts.map((part) => part.compile(scope));
    return (frame) =>
      apply(
        values.map((value) => value(frame)),
        frame,
      );
  });
}

export function nameOf(name: string): Expression {
  const compile = ({ symbols }: Scope): Evaluate => {
    const value = symbols.compileName(name);
    return (frame) => read(value(frame));
  };
  return { name, parts: [], compile, target: nameTarget(name), call: null };
}

export function attributeOf(object: Expression, name: string): Expression {
  return expression([object], (scope) => {
    const value = object.compile(scope);
    return (frame) => read(getAttribute(value(frame), name));
  });
}

export function itemOf(object: Expression, key: Expression): Expression {
  return binary([object, key], (value, place) => read(getItem(value, place)));
}

export type Bounds = {
  readonly start: Expression | null;
  readonly stop: Expression | null;
  readonly step: Expression | null;
};

export function sliceOf(object: Expression, { start, stop, step }: Bounds): Expression {
  const bounds = [start, stop, step].map((bound) => bound ?? constant(null));
  return nary([object, ...bounds], ([value, from, to, by], frame) =>
    charged(frame, sliceValue(value!, { start: from!, stop: to!, step: by! })),
  );
}

export function listOf(items: readonly Expression[]): Expression {
  return nary(items, (values) => PythonList.of(values));
}

export function dictOf(entries: readonly (readonly [key: Expression, value: Expression])[]): Expression {
  return nary(entries.flat(), (values) =>
    PythonDict.of(entries.map((_, index) => ({ key: values[2 * index]!, value: values[2 * index + 1]! }))),
  );
}

export function tupleOf(items: readonly Expression[]): Expression {
  const targets = items.map(({ target }) => target).filter((target) => target !== null);
  const target = targets.length === items.length ? tupleTarget(targets) : null;
  return { ...nary(items, (values) => new PythonTuple(values)), target };
}

export function callOf(callee: Expression, args: Arguments): Expression {
  const compile = (scope: Scope): Evaluate => {
    const [called, given] = [callee.compile(scope), args.compile(scope)];
    return (frame) => {
      const value = called(frame);
      return charged(frame, callValue(value, given(frame)));
    };
  };
  return { ...expression([callee, args], compile), call: { callee, args } };
}

export function negation(operand: Expression): Expression {
  return unary(operand, (value) => !isTruthy(value));
}

export function signed(sign: "+" | "-", operand: Expression): Expression {
  return unary(operand, (value) => applySign(sign, value));
}

/** `x if test else y`. Branches are soft: an unknown filter in one is an error only when it is reached. */
export function conditional(test: Expression, whenTrue: Expression, whenFalse: Expression): Expression {
  const parts = [test, whenTrue, whenFalse];
  return expression(parts, (scope) => {
    const [isTrue, yes, no] = parts.map((part) => part.compile({ ...scope, isSoft: true }));
    return (frame) => (isTruthy(isTrue!(frame)) ? yes!(frame) : no!(frame));
  });
}

export const noElse = constant(new Undefined("an inline if without else was false"));

export function logic(operator: "and" | "or", left: Expression, right: Expression): Expression {
  return expression([left, right], (scope) => {
    const [first, second] = [left.compile(scope), right.compile(scope)];
    return (frame) => {
      const value = first(frame);
      return isTruthy(value) === (operator === "and") ? second(frame) : value;
    };
  });
}

export type Comparison = { readonly operator: string; readonly operand: Expression };

/** `a < b < c` compares twice. */
export function comparison(first: Expression, rest: readonly Comparison[]): Expression {
  return expression([first, ...rest.map(({ operand }) => operand)], (scope) => {
    const start = first.compile(scope);
    const links = rest.map(({ operator, operand }) => ({
      compare: comparisons[operator]!,
      operand: operand.compile(scope),
    }));
    return (frame) => {
      let left = charged(frame, start(frame));
      for (const { compare, operand } of links) {
        const right = charged(frame, operand(frame));
        if (!compare(left, right)) return false;
        left = right;
      }
      return true;
    };
  });
}

type Compare = (left: PythonValue, right: PythonValue) => boolean;

const ordered =
  (operator: OrderOperator): Compare =>
  (left, right) =>
    isOrdered(operator, left, right);

/** Operators that compare two operands, and "not in", which is two tokens. */
export const comparisons: Readonly<Record<string, Compare>> = {
  "==": pythonEquals,
  "!=": (left, right) => !pythonEquals(left, right),
  "<": ordered("<"),
  "<=": ordered("<="),
  ">": ordered(">"),
  ">=": ordered(">="),
  in: (left, right) => contains(right, left),
  "not in": (left, right) => !contains(right, left),
};

/** Integers of templates are small; in Python only time limits them. */
const smallIntegers: IntegerBudget = {
  spend(bits) {
    if (bits > maxIntegerBits) throw limitError(`it computes an integer of more than ${maxIntegerBits} bits`);
  },
};

export function arithmetic(operator: BinaryOperator, left: Expression, right: Expression): Expression {
  return binary([left, right], (first, second, frame) =>
    charged(frame, calculate(operator, first, second, smallIntegers)),
  );
}

export function concatenation(parts: readonly Expression[]): Expression {
  return nary(parts, (values, frame) => {
    const texts = values.map(textOf);
    checkTextLength(texts.reduce((sum, { text }) => sum + text.length, 0));
    return charged(frame, concatStrings(texts));
  });
}

/** Counts the text or the items that an operation reads or makes. */
function charged<T extends PythonValue>(frame: Frame, value: T): T {
  if (value instanceof TracedText) frame.run.work(value.text.length);
  else if (value instanceof PythonList) frame.run.work(value.length);
  return value;
}

/** Throws for a filter that does not exist. */
export function filterUse(name: string, args: Arguments): FilterUse {
  const compile = (operand: Evaluate, scope: Scope): Evaluate => {
    const filter = filters.get(name);
    if (unsupportedFilters.has(name)) throw unsupportedSyntax(`the filter "${name}"`);
    const given = args.compile(scope);
    if (filter === undefined) return unknown(`there is no filter "${name}"`, scope);
    return (frame) => {
      const value = charged(frame, operand(frame));
      return charged(frame, filter(value, given(frame)));
    };
  };
  return { name: null, parts: args.parts, compile };
}

export function filtered(operand: Expression, filter: FilterUse): Expression {
  return expression([operand, filter], (scope) => filter.compile(operand.compile(scope), scope));
}

export type TestUse = { readonly name: string; readonly isNegated: boolean; readonly args: Arguments };

export function tested(operand: Expression, { name, isNegated, args }: TestUse): Expression {
  return expression([operand, args], (scope) => {
    const [value, given] = [operand.compile(scope), args.compile(scope)];
    if (name === "filter") return (frame) => isFilter(value(frame)) !== isNegated;
    if (!hasTest(name)) return unknown(`there is no test "${name}"`, scope);
    return (frame) => runTest(name, charged(frame, value(frame)), given(frame)) !== isNegated;
  });
}

function isFilter(name: PythonValue): boolean {
  return name instanceof TracedText && (filters.has(name.text) || unsupportedFilters.has(name.text));
}

function unknown(what: string, scope: Scope): Evaluate {
  if (!scope.isSoft) throw new PythonError("TemplateAssertionError", what);
  return () => {
    throw new PythonError("TemplateRuntimeError", what);
  };
}

export type ArgumentParts = {
  positional: Expression[];
  named: { readonly name: string; readonly value: Expression }[];
  /** `*items` */
  spread: Expression | null;
  /** `**entries` */
  namedSpread: Expression | null;
};

const noCallArguments: CallArguments = Object.freeze({ positional: [], named: new Map<string, PythonValue>() });
export const noArguments: Arguments = { name: null, parts: [], compile: () => () => noCallArguments };

/** The arguments of a call, evaluated left to right. Throws a "TypeError" for spreads of the wrong kind. */
export function argumentsOf({ positional, named, spread, namedSpread }: ArgumentParts): Arguments {
  const spreads = [spread, namedSpread].filter((part) => part !== null);
  const parts = [...positional, ...named.map(({ value }) => value), ...spreads];
  if (parts.length === 0) return noArguments;
  const compile: Arguments["compile"] = (scope) => {
    const values = positional.map((part) => part.compile(scope));
    const byName = named.map(({ name, value }) => [name, value.compile(scope)] as const);
    const [further, furtherNamed] = [spread?.compile(scope), namedSpread?.compile(scope)];
    return (frame) => {
      const given = values.map((value) => value(frame));
      const givenByName = new Map(byName.map(([name, value]) => [name, value(frame)]));
      if (furtherNamed !== undefined) addNamed(givenByName, furtherNamed(frame));
      return { positional: further === undefined ? given : [...given, ...itemsOf(further(frame))], named: givenByName };
    };
  };
  return { name: null, parts, compile };
}

function addNamed(byName: Map<string, PythonValue>, spread: PythonValue): void {
  if (!(spread instanceof PythonDict)) throw typeError("only a dict gives named arguments");
  for (const { key, value } of spread.entries.values()) {
    if (!(key instanceof TracedText) || byName.has(key.text))
      throw typeError("a named argument is not a name, or given twice");
    byName.set(key.text, value);
  }
}
