// Tool calls of MiniMax. M2: invoke and parameter tags in a block; text outside complete blocks is
// unchanged, and a value is converted by the first declared type that it fits. M3: every tag has a
// prefix, parameters are tags named after themselves, and tags nest for objects and lists; one
// misplaced tag drops all calls.

import { dumpJson, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import {
  isList,
  PythonError,
  pythonLower,
  pythonLstrip,
  pythonRstrip,
  pythonStrip,
  type PythonValue,
  unlessRaised,
} from "../../python-semantics/index.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import { blocksBetween, dollar, openBlocks } from "../text-pieces.ts";
import { declaredParameters, schemaProperties, type ToolCallScan } from "../tool-call-scan.ts";
import { kindNames, readJson, scalarReadings, valueType } from "../typed-text.ts";

const opening = "<minimax:tool_call>";
const closing = "</minimax:tool_call>";
const invokeOpening = '<invoke name="';
const parameterOpening = '<parameter name="';

export const minimaxM2 = createToolCallParser({
  name: "minimax-m2",
  markers: [opening, closing],
  hints: {
    nesting: { [opening]: closing, [invokeOpening]: "</invoke>", [parameterOpening]: "</parameter>" },
  },
  opening,
  detect: (text, scan) => scan.outside(text, [opening, closing], (body) => readInvokes(`${body}${closing}`, scan)),
});

/** The name before `">`, and the text after it; reports a name that does not end. */
function splitName(invoke: string, scan: ToolCallScan): readonly [name: string, body: string] | null {
  const nameEnd = invoke.indexOf('">');
  if (nameEnd !== -1) return [invoke.slice(0, nameEnd), invoke.slice(nameEnd + 2)];
  scan.report("unterminated-call", invoke, "The name of the tool does not end.");
  return null;
}

function readInvokes(block: string, scan: ToolCallScan): void {
  for (const source of openBlocks(block, invokeOpening, "</invoke>")) {
    const parts = splitName(source, scan);
    if (parts === null) continue;
    const name = pythonStrip(parts[0]);
    const parameters = new Map<string, PythonValue>();
    for (const parameter of openBlocks(parts[1], parameterOpening, "</parameter>", dollar(parts[1]))) {
      const end = parameter.indexOf('">');
      if (end === -1) continue;
      const value = pythonRstrip(pythonLstrip(parameter.slice(end + 2), "\n"), "\n");
      const key = pythonStrip(parameter.slice(0, end));
      parameters.set(key, convert(value, declaredTypes(name, key, scan)));
    }
    scan.add(unlessRaised(null, () => scan.named(name, parameters, source)) ?? []);
  }
}

function declaredTypes(tool: string, parameter: string, scan: ToolCallScan): readonly string[] {
  for (const candidate of scan.tools) {
    const parameters = candidate.name === tool ? declaredParameters(candidate) : undefined;
    if (parameters instanceof Map) return schemaTypes(schemaProperties(parameters).get(parameter) ?? null);
  }
  return ["string"];
}

function schemaTypes(schema: JsonValue): readonly string[] {
  if (!(schema instanceof Map)) return ["string"];
  const types = new Set<string>();
  for (const type of [schema.get("type")].flat()) if (typeof type === "string") types.add(type);
  const values = schema.get("enum");
  if (Array.isArray(values)) for (const value of values) types.add(valueType(value));
  for (const key of ["anyOf", "oneOf", "allOf"]) {
    const choices = schema.get(key);
    if (Array.isArray(choices)) for (const type of choices.flatMap(schemaTypes)) types.add(type);
  }
  return types.size === 0 ? ["string"] : [...types];
}

/** Readings, tried in this order regardless of the order in the schema. */
const readings: readonly (readonly [types: readonly string[], read: (text: string) => PythonValue | undefined])[] = [
  ...scalarReadings,
  [["object", "array"], readJson],
  [[...kindNames.text, "text"], (text) => text],
];

function convert(text: string, types: readonly string[]): PythonValue {
  const declared = types.map(pythonLower);
  if (declared.includes("null") || ["null", "none", "nil"].includes(pythonLower(text))) return null;
  const fitting = readings.filter(([names]) => names.some((name) => declared.includes(name)));
  for (const read of [...fitting.map(([, reader]) => reader), readJson]) {
    const value = read(text);
    if (value !== undefined) return value;
  }
  return text;
}

/** Prefix of every tag of M3. */
const tagPrefix = "]<]minimax[>[";
const prefixedOpening = `${tagPrefix}<tool_call>`;
const prefixedClosing = `${tagPrefix}</tool_call>`;
const prefixedInvoke = `${tagPrefix}<invoke name="`;
const prefixedInvokeClosing = `${tagPrefix}</invoke>`;

export const minimaxM3 = createToolCallParser({
  name: "minimax-m3",
  markers: [tagPrefix],
  hints: {
    contentEnd: [tagPrefix],
    nesting: { [prefixedOpening]: prefixedClosing, [prefixedInvoke]: prefixedInvokeClosing },
  },
  opening: null,
  hasToolCall: (text) => withoutTagSpace(text).includes(prefixedOpening),
  readsWithoutTools: true,
  isAllOrNothing: true,
  detect: (text, scan) =>
    scan.outside(withoutTagSpace(text), [prefixedOpening, prefixedClosing], (body) => readNested(body, scan)),
});

/** Removes white space between the prefix and its tag. */
function withoutTagSpace(text: string): string {
  return text.split(tagPrefix).map((piece, index) => (index === 0 ? piece : piece.replace(/^[ \t\r\n]+(?=<)/, ""))).join(tagPrefix); // prettier-ignore
}

function readNested(block: string, scan: ToolCallScan): void {
  let count = 0;
  for (const { body: invoke } of blocksBetween(block, prefixedInvoke, prefixedInvokeClosing)) {
    const parts = splitName(invoke, scan);
    if (parts === null) continue;
    const [name, body] = parts;
    const toolArguments = readTree(body, declaredParameters(scan.tools.find((tool) => tool.name === name)));
    // A call that cannot be written as JSON is dropped and does not affect the others.
    const calls = unlessRaised(null, () => {
      if (!isList(toolArguments) && !(toolArguments instanceof Map))
        throw new PythonError("TypeError", "arguments are no container");
      return scan.tools.length === 0
        ? [scan.call(name, dumpJson(toolArguments))]
        : scan.named(name, toolArguments, invoke);
    });
    for (const call of calls ?? []) scan.add([{ ...call, toolIndex: count++ }]);
  }
}

/** Value under construction: containers grow while their tags are open. */
type Growing =
  | Exclude<PythonValue, readonly PythonValue[] | ReadonlyMap<string, PythonValue>>
  | Growing[]
  | Map<string, Growing>;

/** An open tag, with the one that encloses it. */
type OpenTag = {
  readonly name: string;
  readonly shape: Shape;
  value: Growing;
  /** The value is a list only because its first tag is `<item>`; another tag makes it an object. */
  isGuessedList: boolean;
  readonly around: OpenTag | null;
};

/** A piece after the prefix: a tag, whose end may be missing, and text. */
const piecePattern = /^<(?<slash>\/?)(?<name>[^>]*)(?<end>>?)(?<text>[^]*)$/;

/**
 * Reads nested tags as a value: objects, lists of `<item>`, leaves by their declared type. Throws
 * for tags that do not nest.
 */
function readTree(body: string, parameters: JsonValue | undefined): PythonValue {
  const pieces = body.split(tagPrefix).map((piece) => pythonStrip(piece)).filter((piece) => piece !== ""); // prettier-ignore
  const shape = new Shape(parameters instanceof Map ? parameters : undefined);
  const isRootList = shape.isList && pieces[0]?.startsWith("<item>") === true;
  const root: OpenTag = { name: "", shape, value: isRootList ? [] : new Map(), isGuessedList: false, around: null };
  let inner = root;
  for (const piece of pieces) {
    const parts = piecePattern.exec(piece)?.groups;
    if (parts === undefined) continue;
    const name = pythonStrip(parts["name"]!);
    if (parts["slash"] === "/") {
      inner = closed(inner, name);
    } else {
      if (parts["end"] === "") throw new PythonError("ValueError", "a tag that does not end");
      inner = opened(inner, name, parts["text"]!);
    }
  }
  return root.value;
}

function opened(around: OpenTag, name: string, text: string): OpenTag {
  if (around.shape.isUntyped) guessContainer(around, name);
  const place = Array.isArray(around.value) ? around.value.length : 0;
  const shape = around.shape.inside(name, place);
  const isLeaf = text !== "" || shape.isScalar;
  const value = isLeaf ? readLeaf(text, shape) : shape.isList ? [] : new Map<string, Growing>();
  return { name, shape, around, value, isGuessedList: false };
}

/**
 * Without a schema, a leading `<item>` makes a list; if another tag follows, `item` is a member of
 * an object.
 */
function guessContainer(tag: OpenTag, inside: string): void {
  if (inside === "item") {
    if (!(tag.value instanceof Map) || tag.value.size > 0) return;
    tag.value = [];
    tag.isGuessedList = true;
  } else if (tag.isGuessedList && Array.isArray(tag.value)) {
    tag.value = new Map([["item", tag.value.length === 1 ? tag.value[0]! : tag.value]]);
    tag.isGuessedList = false;
  }
}

/** Adds the content of the tag to the enclosing one, which becomes the innermost again. */
function closed({ name, value, around }: OpenTag, closingName: string): OpenTag {
  if (around === null || name !== closingName) throw new PythonError("ValueError", "a closing tag out of place");
  const parent = around.value;
  if (Array.isArray(parent)) {
    parent.push(value);
  } else if (parent instanceof Map) {
    // A repeated tag makes a list.
    const former = parent.get(name);
    if (Array.isArray(former)) former.push(value);
    else parent.set(name, former === undefined ? value : [former, value]);
  } else {
    throw new PythonError("TypeError", "a value with text has no children");
  }
  return around;
}

const words: ReadonlyMap<string, boolean | null> = new Map<string, boolean | null>([
  ["true", true],
  ["false", false],
  ["null", null],
]);

function readLeaf(text: string, shape: Shape): Growing {
  if (shape.isUntyped) {
    const word = words.get(pythonStrip(text));
    return word === undefined ? text : word;
  }
  const isNullable = shape.allows(["null"]);
  if (shape.allows(kindNames.text) && !isNullable) return text;
  if (isNullable && ["null", "Null", "NULL", ""].includes(text)) return null;
  for (const [types, read] of scalarReadings) {
    const value = shape.allows(types) ? read(text) : undefined;
    if (value !== undefined) return value;
  }
  return text;
}

const scalarNames: readonly string[] = ["null", ...Object.values(kindNames).flat()];

/**
 * Facts that a JSON Schema states about nested tags: the types of a value, and the schemas inside
 * it. A schema that is not an object states nothing.
 */
class Shape {
  readonly #schema: JsonObject | null;
  readonly #types: readonly string[];

  constructor(schema: JsonValue | undefined) {
    this.#schema = schema instanceof Map ? schema : null;
    this.#types = [this.#schema?.get("type")].flat().filter((type) => typeof type === "string").map(pythonLower); // prettier-ignore
  }

  allows(types: readonly string[]): boolean {
    return this.#types.some((type) => types.includes(type));
  }

  get isList(): boolean {
    return this.allows(["array"]);
  }

  get isScalar(): boolean {
    return this.allows(scalarNames) && !this.allows(["object", "array"]);
  }

  /** True if the schema does not declare the content. */
  get isUntyped(): boolean {
    if (this.#schema === null) return true;
    return this.#types.length === 0 && !["properties", "items", "prefixItems"].some((key) => this.#schema!.has(key));
  }

  /** The shape of a tag inside; `place` is the number of list items before it. */
  inside(tag: string, place: number): Shape {
    if (this.#schema === null) return new Shape(undefined);
    if (this.isList && tag === "item") return new Shape(this.#itemSchema(place));
    const properties = schemaProperties(this.#schema);
    return new Shape(properties.has(tag) ? properties.get(tag) : this.#schema.get("additionalProperties"));
  }

  /**
   * Schema of a list item: its own schema in `prefixItems`, then the common one, then the last of
   * the own ones again.
   */
  #itemSchema(place: number): JsonValue | undefined {
    const prefix = this.#schema?.get("prefixItems");
    const own = Array.isArray(prefix) ? prefix : [];
    if (place < own.length) return own[place];
    const others = ["additionalItems", "items"].map((key) => this.#schema?.get(key));
    return others.find((schema) => schema instanceof Map) ?? own.at(-1);
  }
}
