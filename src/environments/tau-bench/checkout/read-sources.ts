// Reads the Python sources of one domain without running them: the tool schemas that `get_info` of
// each tool class returns, in the order of `ALL_TOOLS`; the rules; the tasks of a split, from a
// list of `Task(...)` calls. Upstream's class drops `annotator`, which is kept here as data; its
// agents are not shown the rules, which are part of the layout.

import type { SyntaxNode } from "@lezer/common";

import type { JsonObject, JsonValue } from "../../../python-semantics/json/index.ts";
import {
  childrenOf,
  findBinding,
  isDescription,
  problemAt,
  type PythonSource,
  quote,
  readScope,
  type Scope,
  statementsOf,
  textOf,
} from "../../checkout/python-source.ts";
import { readCall, readItems, readLiteral, readText } from "../../checkout/read-literal.ts";

/** A tool class with the neighbouring module that defines it. */
type ToolClass = { readonly module: string; readonly className: string };

/**
 * Throws a `ConfigurationError` that names file and line if the list has anything but imported
 * classes.
 */
export function readToolList(source: PythonSource): ToolClass[] {
  const scope = readScope(source, source.top);
  const { value } = findBinding(source, scope, "ALL_TOOLS", "assignment");
  return readItems(source, value).map((item) => {
    if (item.name !== "VariableName") throw problemAt(source, item, `this is not a class (${quote(source, item)})`);
    const { node, module, name } = findBinding(source, scope, textOf(source, item), "import");
    const path = module.startsWith(".") ? module.slice(1) : "";
    if (path === "" || path.includes(".") || name === null) {
      throw problemAt(source, node, "a tool is not imported from a module beside this one");
    }
    return { module: path, className: name };
  });
}

/**
 * Throws a `ConfigurationError` that names file and line if `get_info` does more than return a
 * literal.
 */
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

/** The only expression of a function's body, which returns it; a docstring is ignored. */
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

/**
 * Throws a `ConfigurationError` that names file and line if the source has anything but a list of
 * strings.
 */
export function readRules(source: PythonSource): JsonValue[] {
  const { value } = findBinding(source, readScope(source, source.top), "RULES", "assignment");
  return readItems(source, value).map((item) => readText(source, item));
}

/**
 * Throws a `ConfigurationError` that names file and line if the source has anything but a list of
 * tasks.
 */
export function readTasks(source: PythonSource, variable: string): JsonValue[] {
  const scope = readScope(source, source.top);
  const { value } = findBinding(source, scope, variable, "assignment");
  const [task, action] = [findName(source, scope, "Task"), findName(source, scope, "Action")];
  const text: FieldReader = (node) => readText(source, node);
  const list =
    (item: FieldReader): FieldReader =>
    (node) =>
      readItems(source, node).map(item);
  const kwargs: FieldReader = (node) => {
    const read = readLiteral(source, node);
    if (read instanceof Map) return read;
    throw problemAt(source, node, "the arguments of an action are not a dictionary");
  };
  const readAction: FieldReader = (node) => readRecord(source, node, { name: action, fields: { name: text, kwargs } });
  // Keys have one fixed order, regardless of the order of the keywords.
  const fields = { annotator: text, user_id: text, instruction: text, actions: list(readAction), outputs: list(text) };
  return readItems(source, value).map((node) =>
    readRecord(source, node, { name: task, fields, optional: ["annotator"] }),
  );
}

/** The local name of a constructor in a source. */
function findName(source: PythonSource, scope: Scope, name: string): string {
  for (const [local, bindings] of scope.bindings) {
    const isIt = bindings.some(
      (binding) => binding.type === "import" && binding.module === "tau_bench.types" && binding.name === name,
    );
    if (isIt) {
      findBinding(source, scope, local, "import");
      return local;
    }
  }
  throw problemAt(source, 0, `"${name}" is not imported from tau_bench.types`);
}

type FieldReader = (node: SyntaxNode) => JsonValue;

function readRecord(
  source: PythonSource,
  node: SyntaxNode,
  type: {
    readonly name: string;
    readonly fields: Readonly<Record<string, FieldReader>>;
    readonly optional?: readonly string[];
  },
): JsonObject {
  const { name, fields, optional = [] } = type;
  const required = Object.keys(fields).filter((key) => !optional.includes(key));
  const values = readCall(source, node, { name, required, optional });
  const record: JsonObject = new Map();
  for (const [key, read] of Object.entries(fields)) {
    const value = values.get(key);
    if (value !== undefined) record.set(key, read(value));
  }
  return record;
}
