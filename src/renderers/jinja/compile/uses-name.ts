// Whether a body, with all bodies within it, reads a name: macros are given `caller`, `varargs` and `kwargs` only then.

import type { Expression, FilterNode, Statement } from "../nodes.ts";
import { namesIn, namesInArguments } from "./analyze.ts";

export function usesName(statements: readonly Statement[], name: string): boolean {
  return statements.some((statement) => {
    for (const used of namesOf(statement)) if (used === name) return true;
    return bodiesOf(statement).some((body) => usesName(body, name));
  });
}

function* namesOf(statement: Statement): Iterable<string> {
  for (const expression of expressionsOf(statement)) yield* namesIn(expression);
  for (const { args } of filtersOf(statement)) yield* namesInArguments(args);
}

function expressionsOf(statement: Statement): readonly Expression[] {
  switch (statement.type) {
    case "output":
      return [statement.expression];
    case "if":
      return [statement.test];
    case "for":
      return statement.test === null ? [statement.iterable] : [statement.iterable, statement.test];
    case "set":
      return [statement.value];
    case "with":
      return statement.values;
    case "macro":
      return statement.parameters.map((parameter) => parameter.default).filter((value) => value !== null);
    case "call-block":
      return statement.call === null ? [] : [{ type: "call", ...statement.call }];
    default:
      return [];
  }
}

function filtersOf(statement: Statement): readonly FilterNode[] {
  return statement.type === "set-block" || statement.type === "filter-block" ? statement.filters : [];
}

function bodiesOf(statement: Statement): readonly (readonly Statement[])[] {
  switch (statement.type) {
    case "if":
    case "for":
      return [statement.body, statement.otherwise];
    case "set-block":
    case "filter-block":
    case "with":
    case "macro":
    case "call-block":
      return [statement.body];
    default:
      return [];
  }
}
