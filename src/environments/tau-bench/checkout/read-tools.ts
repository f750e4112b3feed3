// The tool schemas of one domain: the literal that `get_info` of each tool class returns, in the order of `ALL_TOOLS`. What
// the tools do is not read at all.

import type { SyntaxNode } from "@lezer/common";

import type { JsonValue } from "../../../python-semantics/json/index.ts";
import { childrenOf, problemAt, quote, textOf, type PythonSource } from "./python/python-source.ts";
import { readItems, readLiteral } from "./python/read-literal.ts";
import { findBinding, isDescription, readScope, statementsOf } from "./python/read-scope.ts";

/** A tool class, and the module beside the list that defines it. */
export type ToolClass = { readonly module: string; readonly className: string };

/** Throws a `ConfigurationError` that names file and line when the list is more than imported classes. */
export function readToolList(source: PythonSource): ToolClass[] {
  const scope = readScope(source, source.top);
  const { value } = findBinding(source, scope, "ALL_TOOLS", "assignment");
  return readItems(source, value).map((item) => {
    if (item.name !== "VariableName") throw problemAt(source, item, `this is no class (${quote(source, item)})`);
    const { node, module, name } = findBinding(source, scope, textOf(source, item), "import");
    const path = module.startsWith(".") ? module.slice(1) : "";
    if (path === "" || path.includes(".") || name === null) {
      throw problemAt(source, node, "a tool is not imported from a module beside this one");
    }
    return { module: path, className: name };
  });
}

/** Throws a `ConfigurationError` that names file and line when `get_info` does more than return a literal. */
export function readToolSchema(source: PythonSource, className: string): JsonValue {
  const definition = findBinding(source, readScope(source, source.top), className, "class");
  const [decorator] = definition.decorators;
  if (decorator !== undefined) throw problemAt(source, decorator, `class "${className}" is decorated`);
  const method = findBinding(source, readScope(source, definition.node), "get_info", "function");
  for (const mark of method.decorators) {
    if (textOf(source, mark).trim() !== "@staticmethod") throw problemAt(source, mark, '"get_info" is decorated');
  }
  const node = readReturned(source, method.node);
  const schema = readLiteral(source, node);
  const described = schema instanceof Map ? schema.get("function") : null;
  if (!(described instanceof Map) || typeof described.get("name") !== "string") {
    throw problemAt(source, node, 'this describes no tool: there is no name under "function"');
  }
  return schema;
}

/** The one expression that a function returns, its description aside. */
function readReturned(source: PythonSource, node: SyntaxNode): SyntaxNode {
  const statements = statementsOf(node).filter((statement) => !isDescription(statement));
  const [statement, second] = statements;
  if (second !== undefined || statement?.name !== "ReturnStatement") {
    throw problemAt(source, second ?? statement ?? node, "the function does more than return a literal");
  }
  const [, value, ...rest] = childrenOf(statement);
  if (value === undefined || rest.length > 0) {
    throw problemAt(source, statement, "the function does not return one literal");
  }
  return value;
}
