// Statements to functions of a frame.

import type { FilterNode, Statement } from "../nodes.ts";
import { isTruthy } from "../values/iteration.ts";
import { pythonError } from "../values/raise.ts";
import type { TracedText } from "../values/traced-text.ts";
import { textOf } from "../values/value-text.ts";
import { analyzeBody, analyzeFilters, analyzeTarget } from "./analyze.ts";
import { compileExpression, compileFilter } from "./compile-expression.ts";
import { compileFor } from "./compile-loop.ts";
import { compileCallBlock, compileMacro } from "./compile-macro.ts";
import { compileTarget, compileTargetCheck } from "./compile-target.ts";
import type { Evaluate, Execute, Frame } from "./run.ts";
import { compileEntry, innerScope, type Scope } from "./scope.ts";

export function compileBody(statements: readonly Statement[], scope: Scope): Execute {
  const compiled = statements.map((statement) => compileStatement(statement, scope));
  const [only] = compiled;
  if (only !== undefined && compiled.length === 1) return only;
  return (frame) => {
    for (const execute of compiled) {
      const signal = execute(frame);
      if (signal !== "next") return signal;
    }
    return "next";
  };
}

function compileStatement(statement: Statement, scope: Scope): Execute {
  switch (statement.type) {
    case "output": {
      const evaluate = compileExpression(statement.expression, scope);
      return (frame) => {
        frame.run.write(textOf(evaluate(frame)));
        return "next";
      };
    }
    case "if": {
      const soft: Scope = { ...scope, isSoft: true };
      const test = compileExpression(statement.test, soft);
      const [body, otherwise] = [compileBody(statement.body, soft), compileBody(statement.otherwise, soft)];
      return (frame) => (isTruthy(test(frame)) ? body(frame) : otherwise(frame));
    }
    case "for":
      return compileFor(statement, scope);
    case "set": {
      const check = compileTargetCheck(statement.target, scope);
      const value = compileExpression(statement.value, scope);
      const assign = compileTarget(statement.target, scope);
      return (frame) => {
        check(frame);
        assign(frame, value(frame));
        return "next";
      };
    }
    case "set-block":
      return compileSetBlock(statement, scope);
    case "macro":
      return compileMacro(statement, scope);
    case "call-block":
      return compileCallBlock(statement, scope);
    case "filter-block": {
      const captured = compileCaptured(statement, scope);
      return (frame) => {
        frame.run.write(textOf(captured(frame)));
        return "next";
      };
    }
    case "with":
      return compileWith(statement, scope);
    case "break":
    case "continue": {
      const signal = statement.type;
      if (!scope.isInLoop) throw pythonError("SyntaxError", `"${signal}" does not stand in the body of a loop`);
      return () => signal;
    }
    default:
      return statement satisfies never;
  }
}

function compileSetBlock(statement: Statement & { readonly type: "set-block" }, scope: Scope): Execute {
  const check = compileTargetCheck(statement.target, scope);
  const captured = compileCaptured(statement, scope);
  const assign = compileTarget(statement.target, scope);
  return (frame) => {
    check(frame);
    assign(frame, captured(frame));
    return "next";
  };
}

/** What a body writes, through filters, as a value. */
function compileCaptured(
  { filters, body }: { readonly filters: readonly FilterNode[]; readonly body: readonly Statement[] },
  scope: Scope,
): Evaluate {
  const inner = innerScope(scope, { isInLoop: false });
  analyzeBody(body, inner.symbols);
  analyzeFilters(filters, inner.symbols);
  const enter = compileEntry(inner);
  const execute = compileBody(body, inner);
  const capture = (frame: Frame): TracedText => {
    enter(frame);
    return frame.run.capture(() => execute(frame));
  };
  return filters.reduce<Evaluate>((operand, filter) => compileFilter(filter, operand, inner), capture);
}

function compileWith(statement: Statement & { readonly type: "with" }, scope: Scope): Execute {
  const values = statement.values.map((value) => compileExpression(value, scope));
  const inner = innerScope(scope);
  for (const target of statement.targets) analyzeTarget(target, inner.symbols, true);
  analyzeBody(statement.body, inner.symbols);
  const assigns = statement.targets.map((target) => compileTarget(target, inner));
  const enter = compileEntry(inner);
  const execute = compileBody(statement.body, inner);
  return (frame) => {
    const given = values.map((value) => value(frame));
    enter(frame);
    assigns.forEach((assign, index) => assign(frame, given[index]!));
    return execute(frame);
  };
}
