// Walks a body once, before it is compiled, and notes which names it reads and assigns, in the order that Jinja does. Bodies
// within it (loops, macros, call blocks) are walked when their turn comes; here only what they take from this one counts.

import type { ArgumentNodes, Expression, FilterNode, Statement, Target } from "../nodes.ts";
import type { Symbols } from "./symbols.ts";

export function analyzeBody(statements: readonly Statement[], symbols: Symbols): void {
  for (const statement of statements) analyzeStatement(statement, symbols);
}

function analyzeStatement(statement: Statement, symbols: Symbols): void {
  const read = (expression: Expression): void => analyzeExpression(expression, symbols);
  switch (statement.type) {
    case "output":
      return read(statement.expression);
    case "if": {
      read(statement.test);
      const branches = [statement.body, statement.otherwise].map((body) => {
        const branch = symbols.copy();
        analyzeBody(body, branch);
        return branch;
      });
      return symbols.merge(branches);
    }
    case "for":
      return read(statement.iterable);
    case "set":
      read(statement.value);
      return analyzeTarget(statement.target, symbols);
    case "set-block":
      return analyzeTarget(statement.target, symbols);
    case "macro":
      return symbols.store(statement.name);
    case "call-block":
      if (statement.call === null) return undefined;
      read(statement.call.callee);
      return analyzeArguments(statement.call.args, symbols);
    case "filter-block":
      return analyzeFilters(statement.filters, symbols);
    case "with":
      return statement.values.forEach(read);
    case "break":
    case "continue":
      return undefined;
    default:
      return statement satisfies never;
  }
}

/** Targets of a loop are parameters of its body; other targets are assigned. */
export function analyzeTarget(target: Target, symbols: Symbols, isParameter = false): void {
  switch (target.type) {
    case "name":
      if (isParameter) symbols.declare(target.name);
      else symbols.store(target.name);
      return;
    case "namespace":
      return symbols.load(target.name);
    case "tuple":
      for (const item of target.items) analyzeTarget(item, symbols, isParameter);
      return;
    default:
      target satisfies never;
  }
}

export function analyzeFilters(filters: readonly FilterNode[], symbols: Symbols): void {
  for (const { args } of filters) analyzeArguments(args, symbols);
}

export function analyzeExpression(expression: Expression, symbols: Symbols): void {
  for (const name of namesIn(expression)) symbols.load(name);
}

function analyzeArguments(args: ArgumentNodes, symbols: Symbols): void {
  for (const name of namesInArguments(args)) symbols.load(name);
}

/** Every variable that an expression reads. */
export function* namesIn(expression: Expression): Iterable<string> {
  if (expression.type === "name") yield expression.name;
  for (const part of partsOf(expression)) yield* namesIn(part);
}

export function* namesInArguments(args: ArgumentNodes): Iterable<string> {
  for (const part of argumentParts(args)) yield* namesIn(part);
}

function argumentParts({ positional, named, spread, namedSpread }: ArgumentNodes): Expression[] {
  const spreads = [spread, namedSpread].filter((part) => part !== null);
  return [...positional, ...named.map(({ value }) => value), ...spreads];
}

function partsOf(expression: Expression): readonly Expression[] {
  switch (expression.type) {
    case "constant":
    case "name":
      return [];
    case "attribute":
      return [expression.object];
    case "item":
      return [expression.object, expression.key];
    case "slice":
      return [expression.object, expression.start, expression.stop, expression.step].filter((part) => part !== null);
    case "call":
      return [expression.callee, ...argumentParts(expression.args)];
    case "filter":
      return [expression.operand, ...argumentParts(expression.filter.args)];
    case "test":
      return [expression.operand, ...argumentParts(expression.args)];
    case "list":
    case "tuple":
      return expression.items;
    case "dict":
      return expression.entries.flatMap(({ key, value }) => [key, value]);
    case "not":
    case "sign":
      return [expression.operand];
    case "arithmetic":
    case "logic":
      return [expression.left, expression.right];
    case "concat":
      return expression.parts;
    case "compare":
      return [expression.first, ...expression.rest.map(({ operand }) => operand)];
    case "conditional":
      return [expression.test, expression.whenTrue, expression.whenFalse].filter((part) => part !== null);
    default:
      return expression satisfies never;
  }
}
