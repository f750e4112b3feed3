// The tools of a toolkit class, as a model is shown them: names, descriptions and schemas from
// signatures and docstrings, in the order of their definitions. The tools' behaviour is written in
// TypeScript, elsewhere.

import type { SyntaxNode } from "@lezer/common";

import { dumpJson, type JsonObject, type JsonValue } from "../../../python-semantics/json/index.ts";
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
import { cleanIndent, type Docstring, readDocstring } from "./read-docstring.ts";
import { basesOf, Schemas, sortedSchema } from "./read-schema.ts";

const toolkitModule = "tau2/environment/toolkit";

/** The text of a file with such tools. */
export const toolsText = (value: JsonValue): string => `${dumpJson(value, { indent: 1 })}\n`;

/**
 * Throws a `ConfigurationError` that names file and line if the class is missing, or a tool is not
 * plainly described.
 */
export async function readTools(modules: Modules, path: string, className: string): Promise<JsonValue[]> {
  const module = await modules.open(path);
  const { source } = module;
  const node = await toolkitIn(modules, module, className);
  const tools: JsonValue[] = [];
  for (const [name, method] of await methodsOf(modules, module, node)) {
    if (method.kind === "tool") tools.push(await readTool({ modules, module }, name, method.node));
  }
  if (tools.length === 0) throw problemAt(source, node, `"${className}" has no tools`);
  return tools;
}

/**
 * The docstrings, without common margins, of the methods that are tools but are not shown to a model
 * at first. Throws like {@link readTools}.
 */
export async function readDiscoverableTools(
  modules: Modules,
  path: string,
  className: string,
): Promise<ReadonlyMap<string, string>> {
  const module = await modules.open(path);
  const { source } = module;
  const docstrings = new Map<string, string>();
  for (const [name, { kind, node }] of await methodsOf(modules, module, await toolkitIn(modules, module, className))) {
    if (kind !== "discoverable") continue;
    const [first] = statementsOf(node);
    const text = first !== undefined && isDescription(first) ? childrenOf(first)[0] : undefined;
    docstrings.set(name, text === undefined ? "" : cleanIndent(readText(source, text)));
  }
  return docstrings;
}

/** The class of a toolkit, or of a part that is mixed into toolkits. */
async function toolkitIn(modules: Modules, module: Module, className: string): Promise<SyntaxNode> {
  const { source, scope } = module;
  const definition = findBinding(source, scope, className, "class");
  const [decorator] = definition.decorators;
  if (decorator !== undefined) throw problemAt(source, decorator, `class "${className}" is decorated`);
  const list = childrenOf(definition.node).find(({ name }) => name === "ArgList");
  if (list !== undefined && textOf(source, list) === "(metaclass=ToolKitType)") return definition.node;
  const [base, ...others] = basesOf(source, definition.node);
  if (
    base === undefined ||
    others.length > 0 ||
    !(await isOfToolkit(modules, { module, node: base, name: "ToolKitBase" }))
  ) {
    throw problemAt(source, definition.node, `"${className}" extends more than ToolKitBase`);
  }
  return definition.node;
}

type ToolMethod = { readonly kind: "tool" | "discoverable"; readonly node: SyntaxNode };

/** The tools of a class by name, in the order of their definitions. */
async function methodsOf(modules: Modules, module: Module, node: SyntaxNode): Promise<Map<string, ToolMethod>> {
  const { source } = module;
  const methods = readScope(source, node);
  const tools = new Map<string, ToolMethod>();
  for (const name of methods.bindings.keys()) {
    const [binding] = methods.bindings.get(name) ?? [];
    if (binding?.type !== "function" || binding.decorators.length === 0) continue;
    const found = findBinding(source, methods, name, "function");
    const kind = await kindOf(modules, module, found.decorators);
    if (kind !== null) tools.set(name, { kind, node: found.node });
  }
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

/**
 * "tool" for a method that is offered to a model: `is_tool(...)` is its only decorator.
 * "discoverable" if it is `is_discoverable_tool(...)`.
 */
async function kindOf(
  modules: Modules,
  module: Module,
  decorators: readonly SyntaxNode[],
): Promise<ToolMethod["kind"] | null> {
  const { source } = module;
  for (const decorator of decorators) {
    const [, name, list] = childrenOf(decorator);
    if (name === undefined || list?.name !== "ArgList") continue;
    const is = (own: string) => isOfToolkit(modules, { module, node: name, name: own });
    const isDiscoverable = textOf(source, name) === "is_discoverable_tool" && (await is("is_discoverable_tool"));
    if (!isDiscoverable && !(await is("is_tool"))) {
      throw problemAt(source, decorator, `a method is decorated in a way not known (${quote(source, decorator)})`);
    }
    if (decorators.length > 1) throw problemAt(source, decorator, "a tool is decorated twice");
    return isDiscoverable ? "discoverable" : "tool";
  }
  return null;
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
