// The library's statements as Jinja's; the other half of `correct-statement.ts`.

import { generationName, recursiveName, withName } from "./correct-statement.ts";
import { tupleName } from "./correct-tokens.ts";
import type { LibraryCallStatement, LibraryFor, LibraryNode, LibraryStatement } from "./library-nodes.ts";
import { lowerArguments, lowerExpression, lowerFilterName } from "./lower-expression.ts";
import type { FilterNode, ForStatement, Parameter, Statement, Target } from "./nodes.ts";
import { syntaxError, unsupportedSyntax } from "./syntax-error.ts";

export function lowerBody(nodes: readonly LibraryNode[]): Statement[] {
  return nodes.flatMap(lowerStatement);
}

function lowerStatement(node: LibraryNode): Statement[] {
  switch (node.type) {
    case "Comment":
      return [];
    case "If":
    case "For":
    case "Set":
    case "Macro":
    case "CallStatement":
    case "FilterStatement":
    case "Break":
    case "Continue":
      return [lowerNamed(node)];
    default:
      return [{ type: "output", expression: lowerExpression(node) }];
  }
}

function lowerNamed(node: LibraryStatement): Statement {
  switch (node.type) {
    case "If":
      return {
        type: "if",
        test: lowerExpression(node.test),
        body: lowerBody(node.body),
        otherwise: lowerBody(node.alternate),
      };
    case "For":
      return lowerFor(node);
    case "Set": {
      if (node.value === null)
        return { type: "set-block", ...lowerSetBlock(node.assignee), body: lowerBody(node.body) };
      return { type: "set", target: lowerTarget(node.assignee), value: lowerExpression(node.value) };
    }
    case "Macro":
      return {
        type: "macro",
        name: node.name.value,
        parameters: node.args.map(lowerParameter),
        body: lowerBody(node.body),
      };
    case "CallStatement":
      return lowerCallStatement(node);
    case "FilterStatement":
      return { type: "filter-block", filters: [lowerFilterName(node.filter)], body: lowerBody(node.body) };
    case "Break":
      return { type: "break" };
    case "Continue":
      return { type: "continue" };
    default:
      throw syntaxError(`a ${node.type} stands where a statement is wanted`);
  }
}

/** `{% set name | filter %}`: the filters are written on the target. */
function lowerSetBlock(assignee: LibraryNode): { readonly target: Target; readonly filters: readonly FilterNode[] } {
  if (assignee.type !== "FilterExpression") return { target: lowerTarget(assignee), filters: [] };
  const { target, filters } = lowerSetBlock(assignee.operand);
  return { target, filters: [...filters, lowerFilterName(assignee.filter)] };
}

function lowerTarget(node: LibraryNode): Target {
  if (node.type === "Identifier") return { type: "name", name: node.value };
  if (node.type === "TupleLiteral") return { type: "tuple", items: node.value.map(lowerTarget) };
  if (node.type === "CallExpression" && node.callee.type === "Identifier" && node.callee.value === tupleName) {
    return { type: "tuple", items: node.args.map(lowerTarget) };
  }
  if (node.type === "MemberExpression" && !node.computed) {
    const { object, property } = node;
    if (object.type === "Identifier" && property.type === "Identifier") {
      return { type: "namespace", name: object.value, attribute: property.value };
    }
  }
  throw syntaxError("something is assigned to that is no name");
}

function lowerFor(node: LibraryFor): ForStatement {
  const { iterable } = node;
  const [looped, test] = iterable.type === "SelectExpression" ? [iterable.lhs, iterable.test] : [iterable, null];
  const isRecursive =
    looped.type === "CallExpression" && looped.callee.type === "Identifier" && looped.callee.value === recursiveName;
  return {
    type: "for",
    target: lowerTarget(node.loopvar),
    iterable: lowerExpression(isRecursive ? looped.args[0]! : looped),
    test: test === null ? null : lowerExpression(test),
    body: lowerBody(node.body),
    otherwise: lowerBody(node.defaultBlock),
    isRecursive,
  };
}

function lowerCallStatement(node: LibraryCallStatement): Statement {
  const { callee, args } = node.call;
  const name = callee.type === "Identifier" ? callee.value : null;
  const parameters = (node.callerArgs ?? []).map(lowerParameter);
  const body = lowerBody(node.body);
  if (name === generationName) return { type: "call-block", call: null, parameters, body };
  if (name === withName) {
    const { positional } = lowerArguments(args);
    return { type: "with", names: parameters.map((parameter) => parameter.name), values: positional, body };
  }
  return {
    type: "call-block",
    call: { callee: lowerExpression(callee), args: lowerArguments(args) },
    parameters,
    body,
  };
}

function lowerParameter(node: LibraryNode): Parameter {
  if (node.type === "Identifier") return { name: node.value, default: null };
  if (node.type === "KeywordArgumentExpression") return { name: node.key.value, default: lowerExpression(node.value) };
  throw unsupportedSyntax("a parameter that is no name");
}
