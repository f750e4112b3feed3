// The tools of a toolkit class, as a model is shown them: names, descriptions and schemas from
// signatures and docstrings, in the order of their definitions. The tools' behaviour is written in
// TypeScript, elsewhere.

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
  splitAtCommas,
  statementsOf,
  textOf,
} from "../../checkout/python-source.ts";
import { readText } from "../../checkout/read-literal.ts";
import type { Module, Modules } from "./upstream.ts";
import { type Docstring, readDocstring } from "./read-docstring.ts";
import { basesOf, Schemas, sortedSchema } from "./read-schema.ts";

const toolkitModule = "tau2/environment/toolkit";

/**
 * Throws a `ConfigurationError` that names file and line if the class is missing, or a tool is not
 * plainly described.
 */
export async function readTools(modules: Modules, path: string, className: string): Promise<JsonValue[]> {
  const module = await modules.open(path);
  const { source, scope } = module;
  const definition = findBinding(source, scope, className, "class");
  const [decorator] = definition.decorators;
  if (decorator !== undefined) throw problemAt(source, decorator, `class "${className}" is decorated`);
  const [base, ...others] = basesOf(source, definition.node);
  if (
    base === undefined ||
    others.length > 0 ||
    !(await isOfToolkit(modules, { module, node: base, name: "ToolKitBase" }))
  ) {
    throw problemAt(source, definition.node, `"${className}" extends more than ToolKitBase`);
  }
  const methods = readScope(source, definition.node);
  const tools: JsonValue[] = [];
  for (const name of methods.bindings.keys()) {
    const [binding] = methods.bindings.get(name) ?? [];
    if (binding?.type !== "function" || binding.decorators.length === 0) continue;
    const found = findBinding(source, methods, name, "function");
    if (await isTool(modules, module, found.decorators))
      tools.push(await readTool({ modules, module }, name, found.node));
  }
  if (tools.length === 0) throw problemAt(source, definition.node, `"${className}" has no tools`);
  return tools;
}

/** True if a name refers to the given name in upstream's toolkit module. */
async function isOfToolkit(
  modules: Modules,
  { module, node, name }: { readonly module: Module; readonly node: SyntaxNode; readonly name: string },
): Promise<boolean> {
  if (node.name !== "VariableName") return false;
  const found = await modules.meaningOf(module, node);
  if (found?.type !== "definition" || found.module.source.file !== `src/${toolkitModule}.py`) return false;
  return (
    findBinding(found.module.source, found.module.scope, name, found.binding.type).node.from === found.binding.node.from
  );
}

/** True if a method is offered to a model: `is_tool(...)` is its only decorator. */
async function isTool(modules: Modules, module: Module, decorators: readonly SyntaxNode[]): Promise<boolean> {
  const { source } = module;
  for (const decorator of decorators) {
    const [, name, list] = childrenOf(decorator);
    if (name === undefined || list?.name !== "ArgList") continue;
    if (!(await isOfToolkit(modules, { module, node: name, name: "is_tool" }))) {
      throw problemAt(source, decorator, `a method is decorated in a way not known (${quote(source, decorator)})`);
    }
    if (decorators.length > 1) throw problemAt(source, decorator, "a tool is decorated twice");
    return true;
  }
  return false;
}

type At = { readonly modules: Modules; readonly module: Module };

async function readTool({ modules, module }: At, name: string, node: SyntaxNode): Promise<JsonObject> {
  const { source } = module;
  const told = readDescription(source, node);
  const schemas = new Schemas(modules);
  const properties: JsonObject = new Map();
  const required: string[] = [];
  for (const { name: parameter, type, initial } of readParameters(source, node)) {
    const description = told.parameters.get(parameter) ?? null;
    properties.set(parameter, await schemas.ofField(module, { name: parameter, type, initial, description }));
    if (initial === null) required.push(parameter);
  }
  const parameters = new Map<string, JsonValue>([
    ...(schemas.definitions.size === 0 ? [] : [["$defs", schemas.definitions] as const]),
    ["properties", properties],
    ...(required.length === 0 ? [] : [["required", required] as const]),
    ["title", "parameters"],
    ["type", "object"],
  ]);
  const described = new Map<string, JsonValue>([
    ["name", name],
    ["description", told.description ?? name],
    ["parameters", sortedSchema(parameters)],
  ]);
  return new Map<string, JsonValue>([["type", "function"], ["function", described]]); // prettier-ignore
}

function readDescription(source: PythonSource, node: SyntaxNode): Docstring {
  const [first] = statementsOf(node);
  if (first === undefined || !isDescription(first)) return { description: null, parameters: new Map() };
  const [text] = childrenOf(first);
  const told = text === undefined ? "it is empty" : readDocstring(readText(source, text));
  if (typeof told === "string") throw problemAt(source, first, told);
  return told;
}

type Parameter = { readonly name: string; readonly type: SyntaxNode; readonly initial: SyntaxNode | null };

/** All parameters but the first, which is the toolkit. */
function readParameters(source: PythonSource, node: SyntaxNode): Parameter[] {
  const list = childrenOf(node).find(({ name }) => name === "ParamList");
  const parts = list === undefined ? [] : splitAtCommas(childrenOf(list).slice(1, -1), ({ name }) => name === ",");
  const [self, ...rest] = parts;
  if (self?.length !== 1 || self[0]?.name !== "VariableName")
    throw problemAt(source, node, "a tool is not a plain method");
  return rest.map(([name, type, operator, initial, ...more]) => {
    const annotation = type?.name === "TypeDef" ? childrenOf(type)[1] : undefined;
    const isPlain = operator === undefined || (operator.name === "AssignOp" && initial !== undefined);
    if (name?.name !== "VariableName" || annotation === undefined || !isPlain || more.length > 0) {
      throw problemAt(source, name ?? node, "a parameter has no type, or takes more than one value");
    }
    return { name: textOf(source, name), type: annotation, initial: initial ?? null };
  });
}
