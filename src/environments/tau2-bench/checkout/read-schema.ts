// JSON schemas for Python's type annotations, as written by the library that upstream uses for its
// tool schemas: builtin types, lists, dictionaries, choices, enumerations of strings, and models
// with their fields. Any other annotation is refused.

import type { SyntaxNode } from "@lezer/common";

import type { JsonObject, JsonValue } from "../../../python-semantics/json/index.ts";
import {
  childrenOf,
  isDescription,
  problemAt,
  type PythonSource,
  quote,
  splitAtCommas,
  statementsOf,
  textOf,
} from "../../checkout/python-source.ts";
import { readLiteral, readText } from "../../checkout/read-literal.ts";
import type { Meaning, Module, Modules } from "./upstream.ts";
import { cleanIndent } from "./read-docstring.ts";

/** Maximum nesting of annotations and aliases; upstream has four levels. */
const maxDepth = 20;

const builtins: Readonly<Record<string, readonly (readonly [string, JsonValue])[]>> = {
  str: [["type", "string"]],
  int: [["type", "integer"]],
  float: [["type", "number"]],
  bool: [["type", "boolean"]],
  dict: [["additionalProperties", true], ["type", "object"]], // prettier-ignore
  list: [["items", new Map()], ["type", "array"]], // prettier-ignore
};

type Definition = Extract<Meaning, { type: "definition" }>;

/** The schemas of one tool's parameters, with the definitions that they refer to. */
export class Schemas {
  /** Definitions by class name. */
  readonly definitions: JsonObject = new Map();
  readonly #modules: Modules;
  readonly #owners = new Map<string, number | string>();

  constructor(modules: Modules) {
    this.#modules = modules;
  }

  /**
   * The schema of an annotation. Throws a `ConfigurationError` that names file and line for an
   * unknown annotation.
   */
  async of(module: Module, node: SyntaxNode, depth = 0): Promise<JsonObject> {
    const { source } = module;
    if (depth > maxDepth) throw problemAt(source, node, `types are nested more than ${maxDepth} deep`);
    switch (node.name) {
      case "VariableName":
        return this.#ofName(module, node, depth);
      case "None":
        return new Map([["type", "null"]]);
      case "BinaryExpression":
        return this.#ofUnion(module, readAlternatives(source, node), depth);
      case "MemberExpression":
        return this.#ofGeneric(module, node, depth);
    }
    throw problemAt(source, node, `this type is not known (${quote(source, node)})`);
  }

  /** The schema of a field, with the title made from its name, the description and the default. */
  async ofField(
    module: Module,
    { name, type, description, initial }: Field & { readonly name: string },
  ): Promise<JsonObject> {
    const schema = new Map(await this.of(module, type));
    if (!schema.has("$ref")) schema.set("title", titleOf(name));
    if (description !== null) schema.set("description", description);
    if (initial !== null) schema.set("default", await this.#valueOf(module, initial));
    return schema;
  }

  async #ofName(module: Module, node: SyntaxNode, depth: number): Promise<JsonObject> {
    const { source } = module;
    const meaning = await this.#modules.meaningOf(module, node);
    if (meaning === null) {
      const name = textOf(source, node);
      const builtin = Object.hasOwn(builtins, name) ? builtins[name] : undefined;
      if (builtin !== undefined) return new Map(builtin);
    } else if (meaning.type === "outside") {
      if (meaning.module === "typing" && meaning.name === "Any") return new Map();
      const same =
        meaning.module === "typing" ? builtins[{ List: "list", Dict: "dict" }[meaning.name] ?? ""] : undefined;
      if (same !== undefined) return new Map(same);
    } else if (meaning.binding.type === "assignment") {
      return this.of(meaning.module, meaning.binding.value, depth + 1);
    } else if (meaning.binding.type === "class") {
      return this.#refer(meaning, depth);
    }
    throw problemAt(source, node, `this type is not known (${quote(source, node)})`);
  }

  async #ofGeneric(module: Module, node: SyntaxNode, depth: number): Promise<JsonObject> {
    const { source } = module;
    const [base, open, ...rest] = childrenOf(node);
    const parts = splitAtCommas(rest.slice(0, -1), ({ name }) => name === ",");
    const types = parts.flatMap(([first, second]) => (first === undefined || second !== undefined ? [] : [first]));
    const [first, second, third] = types;
    const refuse = () => problemAt(source, node, `this type is not known (${quote(source, node)})`);
    if (base?.name !== "VariableName" || open?.name !== "[" || types.length !== parts.length) throw refuse();
    const meaning = await this.#modules.meaningOf(module, base);
    if (first === undefined) throw refuse();
    if (meaning !== null && (meaning.type !== "outside" || meaning.module !== "typing")) throw refuse();
    switch (meaning === null ? textOf(source, base) : meaning.name) {
      case "list":
      case "List":
        if (second !== undefined) break;
        return new Map<string, JsonValue>([["items", await this.of(module, first, depth + 1)], ["type", "array"]]); // prettier-ignore
      case "dict":
      case "Dict": {
        if (second === undefined || third !== undefined || textOf(source, first) !== "str") break;
        const values = await this.of(module, second, depth + 1);
        return new Map<string, JsonValue>([
          ["additionalProperties", values.size === 0 ? true : values],
          ["type", "object"],
        ]);
      }
      case "Optional":
        if (meaning === null || second !== undefined) break;
        return this.#ofUnion(module, [...readAlternatives(source, first), "null"], depth);
      case "Union":
        if (meaning === null) break;
        return this.#ofUnion(module, types, depth);
      case "Literal":
        if (meaning === null) break;
        return choice(types.map((value) => readText(source, value)));
    }
    throw refuse();
  }

  async #ofUnion(module: Module, types: readonly (SyntaxNode | "null")[], depth: number): Promise<JsonObject> {
    const members: JsonValue[] = [];
    for (const type of types) {
      const schema: JsonObject = type === "null" ? new Map([["type", "null"]]) : await this.of(module, type, depth + 1);
      const inner = schema.get("anyOf");
      members.push(...(Array.isArray(inner) ? inner : [schema]));
    }
    return new Map([["anyOf", members]]);
  }

  /** A reference to the definition of a class, which is added at its first use. */
  async #refer({ module, binding }: Definition, depth: number): Promise<JsonObject> {
    const { source } = module;
    const { node } = binding;
    const name = classNameOf(source, node);
    const place = `${source.file}:${node.from}`;
    const owner = this.#owners.get(name);
    if (owner !== undefined && owner !== place) throw problemAt(source, node, `two classes are called "${name}"`);
    if (owner === undefined) {
      this.#owners.set(name, place);
      const written = (await this.#ofEnum(module, node)) ?? (await this.#ofModel(module, node, depth));
      const [description] = statementsOf(node);
      if (description !== undefined && isDescription(description)) {
        written.set("description", cleanIndent(readText(source, childrenOf(description)[0]!)));
      }
      this.definitions.set(name, written.set("title", name));
    }
    return new Map([["$ref", `#/$defs/${name}`]]);
  }

  /** The schema of an enumeration; `null` if the class is not one. */
  async #ofEnum(module: Module, node: SyntaxNode): Promise<JsonObject | null> {
    const members = await this.#membersOf(module, node);
    return members === null ? null : choice([...members.values()]);
  }

  /** The strings of an enumeration by member name; `null` if the class is not one. */
  async #membersOf(module: Module, node: SyntaxNode): Promise<Map<string, string> | null> {
    const { source } = module;
    const bases = basesOf(source, node);
    let isEnum = false;
    for (const base of bases) {
      const meaning = base.name === "VariableName" ? await this.#modules.meaningOf(module, base) : null;
      isEnum ||= meaning?.type === "outside" && meaning.module === "enum" && meaning.name === "Enum";
    }
    if (!isEnum) return null;
    if (!bases.some((base) => textOf(source, base) === "str"))
      throw problemAt(source, node, "an enumeration is not of strings");
    const members = new Map<string, string>();
    for (const statement of statementsOf(node)) {
      const [name, operator, value, ...rest] = childrenOf(statement);
      if (isDescription(statement) || isMethod(statement)) continue;
      if (
        statement.name !== "AssignStatement" ||
        name?.name !== "VariableName" ||
        operator?.name !== "AssignOp" ||
        value === undefined ||
        rest.length > 0
      ) {
        throw problemAt(source, statement, "an enumeration holds more than names with texts");
      }
      members.set(textOf(source, name), readText(source, value));
    }
    return members;
  }

  /** The schema of a model, with the fields of its class and of the classes that it extends. */
  async #ofModel(module: Module, node: SyntaxNode, depth: number): Promise<JsonObject> {
    const { fields, isClosed } = await this.#fieldsOf(module, node, depth);
    const properties: JsonObject = new Map();
    for (const [name, { at, field }] of fields) properties.set(name, await this.ofField(at, { name, ...field }));
    const required = [...fields].filter(([, { field }]) => field.isRequired).map(([name]) => name);
    return new Map<string, JsonValue>([
      ...(isClosed ? [["additionalProperties", false] as const] : []),
      ["properties", properties],
      ...(required.length === 0 ? [] : [["required", required] as const]),
      ["type", "object"],
    ]);
  }

  async #fieldsOf(module: Module, node: SyntaxNode, depth: number): Promise<Fields> {
    const { source } = module;
    const [base, second] = basesOf(source, node);
    const meaning =
      base?.name === "VariableName" && second === undefined ? await this.#modules.meaningOf(module, base) : null;
    if (depth > maxDepth || base === undefined || meaning === null)
      throw problemAt(source, node, "this class is not a model");
    const isRoot = meaning.type === "outside" && meaning.module === "pydantic" && meaning.name === "BaseModel";
    if (!isRoot && (meaning.type !== "definition" || meaning.binding.type !== "class")) {
      throw problemAt(source, base, `a model extends what is not known (${quote(source, base)})`);
    }
    const inherited =
      meaning.type === "definition" ? await this.#fieldsOf(meaning.module, meaning.binding.node, depth + 1) : noFields;
    const fields = new Map(inherited.fields);
    let { isClosed } = inherited;
    for (const statement of statementsOf(node)) {
      if (isDescription(statement) || isMethod(statement) || statement.name === "PassStatement") continue;
      const [name, type, operator, value] = childrenOf(statement);
      if (statement.name !== "AssignStatement" || name?.name !== "VariableName") {
        throw problemAt(source, statement, "a model holds more than fields and methods");
      }
      if (textOf(source, name) === "model_config" && operator !== undefined) {
        isClosed = /^ConfigDict\(\s*extra\s*=\s*["']forbid["']\s*,?\s*\)$/.test(textOf(source, operator));
        if (!isClosed) throw problemAt(source, statement, "the settings of a model are not known");
        continue;
      }
      const annotation = type?.name === "TypeDef" ? childrenOf(type)[1] : undefined;
      if (annotation === undefined) throw problemAt(source, statement, "a field has no type");
      const field = {
        type: annotation,
        ...(await this.#readInitial(module, operator === undefined ? null : (value ?? null))),
      };
      fields.set(textOf(source, name), { at: module, field });
    }
    return { fields, isClosed };
  }

  /** Reads the part after the type of a field: a value, or a call of `Field`. */
  async #readInitial(module: Module, node: SyntaxNode | null): Promise<Omit<Field, "type"> & { isRequired: boolean }> {
    const { source } = module;
    if (node === null) return { description: null, initial: null, isRequired: true };
    if (node.name !== "CallExpression") return { description: null, initial: node, isRequired: false };
    const [callee, list] = childrenOf(node);
    const meaning = callee?.name === "VariableName" ? await this.#modules.meaningOf(module, callee) : null;
    if (
      meaning?.type !== "outside" ||
      meaning.module !== "pydantic" ||
      meaning.name !== "Field" ||
      list === undefined
    ) {
      throw problemAt(source, node, `a field begins with what is not known (${quote(source, node)})`);
    }
    let [description, initial, hasFactory]: [string | null, SyntaxNode | null, boolean] = [null, null, false];
    for (const [first, operator, value, ...rest] of splitAtCommas(
      childrenOf(list).slice(1, -1),
      ({ name }) => name === ",",
    )) {
      if (first === undefined || rest.length > 0) throw problemAt(source, node, "a field is not simply described");
      const keyword = operator?.name === "AssignOp" ? textOf(source, first) : null;
      const given = keyword === null ? first : value;
      if (given === undefined) throw problemAt(source, node, "a field is not simply described");
      if (keyword === "description") description = readText(source, given);
      else if (keyword === "default_factory") hasFactory = true;
      else if (keyword === "default" || (keyword === null && operator === undefined)) initial = given;
      else throw problemAt(source, first, `a field says what is not known (${quote(source, first)})`);
    }
    if (initial?.name === "Ellipsis") initial = null;
    return { description, initial, isRequired: initial === null && !hasFactory };
  }

  /** The value of a literal, or of a member of an enumeration. */
  async #valueOf(module: Module, node: SyntaxNode): Promise<JsonValue> {
    const { source } = module;
    const [owner, dot, name, ...rest] = childrenOf(node);
    if (node.name !== "MemberExpression" || dot?.name !== "." || name === undefined || rest.length > 0) {
      return readLiteral(source, node);
    }
    const meaning = owner?.name === "VariableName" ? await this.#modules.meaningOf(module, owner) : null;
    const isClass = meaning?.type === "definition" && meaning.binding.type === "class";
    const members = isClass ? await this.#membersOf(meaning.module, meaning.binding.node) : null;
    const member = members?.get(textOf(source, name));
    if (member === undefined) throw problemAt(source, node, `this value is not known (${quote(source, node)})`);
    return member;
  }
}

type Field = {
  readonly type: SyntaxNode;
  readonly description: string | null;
  /** The default; `null` if there is none. */
  readonly initial: SyntaxNode | null;
};

type Fields = {
  /** Fields by name, each with the module in which its names are resolved. */
  readonly fields: ReadonlyMap<
    string,
    { readonly at: Module; readonly field: Field & { readonly isRequired: boolean } }
  >;
  /** True if the model refuses other keys. */
  readonly isClosed: boolean;
};

const noFields: Fields = { fields: new Map(), isClosed: false };

/** The written form of a schema: keys sorted, except names of properties and values of defaults. */
export function sortedSchema(value: JsonValue, parent = ""): JsonValue {
  if (Array.isArray(value)) return value.map((item) => sortedSchema(item, parent));
  if (!(value instanceof Map)) return value;
  const keys = parent === "properties" || parent === "default" ? [...value.keys()] : [...value.keys()].sort();
  return new Map(keys.map((key) => [key, sortedSchema(value.get(key)!, key)]));
}

/** The title of a name: "New Item Ids" for "new_item_ids". */
const titleOf = (name: string): string =>
  name.replaceAll("_", " ").replace(/[A-Za-z]+/g, (word) => word[0]!.toUpperCase() + word.slice(1).toLowerCase());

function choice(texts: readonly string[]): JsonObject {
  const [only, second] = texts;
  const values: readonly [string, JsonValue] =
    only !== undefined && second === undefined ? ["const", only] : ["enum", [...texts]];
  return new Map<string, JsonValue>([values, ["type", "string"]]);
}

/** The operands of `a | b | c`. */
function readAlternatives(source: PythonSource, node: SyntaxNode, depth = 0): SyntaxNode[] {
  if (node.name !== "BinaryExpression") return [node];
  const [left, operator, right] = childrenOf(node);
  if (
    left === undefined ||
    right === undefined ||
    operator === undefined ||
    textOf(source, operator) !== "|" ||
    depth > 50
  ) {
    throw problemAt(source, node, `this type is not known (${quote(source, node)})`);
  }
  return [...readAlternatives(source, left, depth + 1), ...readAlternatives(source, right, depth + 1)];
}

const isMethod = ({ name }: SyntaxNode): boolean => name === "FunctionDefinition" || name === "DecoratedStatement";

export function basesOf(source: PythonSource, node: SyntaxNode): SyntaxNode[] {
  const list = childrenOf(node).find(({ name }) => name === "ArgList");
  if (list === undefined) return [];
  return splitAtCommas(childrenOf(list).slice(1, -1), ({ name }) => name === ",").map((part) => {
    const [base, second] = part;
    if (base === undefined || second !== undefined)
      throw problemAt(source, list, "a class has keywords among its bases");
    return base;
  });
}

function classNameOf(source: PythonSource, node: SyntaxNode): string {
  const name = childrenOf(node).find((child) => child.name === "VariableName");
  return name === undefined ? "" : textOf(source, name);
}
