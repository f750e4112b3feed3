// The tasks of one split, out of a list of `Task(...)` calls. Upstream's class drops `annotator`; it is kept, as data.

import type { SyntaxNode } from "@lezer/common";

import type { JsonObject, JsonValue } from "../../../python-semantics/json/index.ts";
import { problemAt, type PythonSource } from "./python/python-source.ts";
import { readCall } from "./python/read-call.ts";
import { readItems, readLiteral, readText } from "./python/read-literal.ts";
import { findBinding, readScope, type Scope } from "./python/read-scope.ts";

/** Throws a `ConfigurationError` that names file and line when the source says anything else than a list of tasks. */
export function readTasks(source: PythonSource, variable: string): JsonValue[] {
  const scope = readScope(source, source.top);
  const { value } = findBinding(source, scope, variable, "assignment");
  const names: ConstructorNames = { task: findName(source, scope, "Task"), action: findName(source, scope, "Action") };
  return readItems(source, value).map((item) => readTask(source, item, names));
}

/** What the two constructors are called in a source. */
type ConstructorNames = { readonly task: string; readonly action: string };

function findName(source: PythonSource, scope: Scope, wanted: string): string {
  for (const [local, bindings] of scope.bindings) {
    const isIt = bindings.some(
      (binding) => binding.type === "import" && binding.module === "tau_bench.types" && binding.name === wanted,
    );
    if (isIt) {
      findBinding(source, scope, local, "import");
      return local;
    }
  }
  throw problemAt(source, 0, `"${wanted}" is not imported from tau_bench.types`);
}

function readTask(source: PythonSource, node: SyntaxNode, names: ConstructorNames): JsonObject {
  const values = readCall(source, node, {
    name: names.task,
    required: ["user_id", "instruction", "actions", "outputs"],
    optional: ["annotator"],
  });
  const task: JsonObject = new Map();
  // One order of keys, whatever order the keywords have.
  for (const [key, read] of taskFields) {
    const value = values.get(key);
    if (value !== undefined) task.set(key, read(source, value, names));
  }
  return task;
}

type FieldReader = (source: PythonSource, node: SyntaxNode, names: ConstructorNames) => JsonValue;

const taskFields: readonly (readonly [string, FieldReader])[] = [
  ["annotator", readText],
  ["user_id", readText],
  ["instruction", readText],
  ["actions", (source, node, names) => readItems(source, node).map((item) => readAction(source, item, names))],
  ["outputs", (source, node) => readItems(source, node).map((item) => readText(source, item))],
];

function readAction(source: PythonSource, node: SyntaxNode, names: ConstructorNames): JsonObject {
  const values = readCall(source, node, { name: names.action, required: ["name", "kwargs"], optional: [] });
  const action: JsonObject = new Map();
  for (const [key, read] of actionFields) {
    const value = values.get(key);
    if (value !== undefined) action.set(key, read(source, value, names));
  }
  return action;
}

const actionFields: readonly (readonly [string, FieldReader])[] = [
  ["name", readText],
  ["kwargs", readArguments],
];

function readArguments(source: PythonSource, node: SyntaxNode): JsonValue {
  const value = readLiteral(source, node);
  if (value instanceof Map) return value;
  throw problemAt(source, node, "the arguments of an action are no dictionary");
}
