// State of a format while it reads one text: calls and problems, and the rules that all formats
// with JSON share: which key holds the name, which the arguments, what is dropped, what raises.

import type { ParseProblem, Tool } from "../core/index.ts";
import {
  dumpJson,
  type JsonObject,
  JsonSyntaxError,
  type JsonValue,
  parseJson,
} from "../python-semantics/json/index.ts";
import {
  isTruthy,
  PythonError,
  pythonExceptionType,
  pythonTypeName,
  type PythonValue,
} from "../python-semantics/index.ts";
import { blocksBetween, type TextBlock } from "./text-pieces.ts";

/** A call as the reference reports it. */
export type DetectedCall = {
  /** `null` only with `forwardUnknownTools`, if the call has no name. */
  readonly name: string | null;
  /** JSON text, in Python's layout where the format re-serializes it; for some formats unchecked text of the model. */
  readonly parameters: string;
  /** Usually the tool's index in the list, -1 if unknown; in some formats the call's number. */
  readonly toolIndex: number;
};

/** Maximum recorded problems; hostile text can have one every few characters, each very long. */
const maxProblems = 64;

export class ToolCallScan {
  readonly tools: readonly Tool[];
  readonly forwardUnknownTools: boolean;
  /** Index of each tool by name; nameless tools do not count, and among equal names the last does. */
  readonly #indices: ReadonlyMap<string, number>;
  readonly #calls: DetectedCall[] = [];
  readonly #problems: ParseProblem[] = [];
  #leftOut = 0;

  constructor(tools: readonly Tool[], forwardUnknownTools: boolean) {
    this.tools = tools;
    this.forwardUnknownTools = forwardUnknownTools;
    this.#indices = new Map(tools.flatMap(({ name }, index) => (name === "" ? [] : [[name, index]])));
  }

  get calls(): readonly DetectedCall[] {
    return this.#calls;
  }

  /** The first problems; if there are more, one further problem states how many were omitted. */
  get problems(): readonly ParseProblem[] {
    const last = this.#problems.at(-1);
    if (last === undefined || this.#leftOut === 0) return this.#problems;
    const detail = `${this.#leftOut} further problems of this text are left out.`;
    return [...this.#problems, { code: last.code, text: "", toolName: null, detail }];
  }

  add(calls: readonly DetectedCall[]): void {
    for (const call of calls) this.#calls.push(call);
  }

  /** Returns the result of `detect`; if it raises, drops all calls and returns the whole text. */
  allOrNothing(text: string, detect: () => string): string {
    try {
      return detect();
    } catch (error) {
      if (pythonExceptionType(error) === null) throw error;
      this.#calls.length = 0;
      return text;
    }
  }

  report(code: ParseProblem["code"], text: string, detail: string, toolName: string | null = null): void {
    if (this.#problems.length >= maxProblems) {
      this.#leftOut++;
      return;
    }
    const callsBefore = this.#calls.length;
    this.#problems.push({ code, text, toolName, detail, ...(callsBefore === 0 ? {} : { callsBefore }) });
  }

  hasTool(name: string): boolean {
    return this.#indices.has(name);
  }

  /** The tool of a name; among equal names the last counts. */
  tool(name: string): Tool | undefined {
    return this.tools[this.#indices.get(name) ?? -1];
  }

  /** The pieces between two delimiters; reports one that does not end. */
  *blocks(text: string, opening: string, closing: string): Generator<TextBlock> {
    let rest = 0;
    for (const block of blocksBetween(text, opening, closing)) {
      rest = block.end;
      yield block;
    }
    const unclosed = text.indexOf(opening, rest);
    if (unclosed !== -1) {
      this.report("unterminated-call", text.slice(unclosed), `The call does not end with ${closing}.`);
    }
  }

  /** The text outside of complete blocks, after `read` has processed the content of each. */
  outside(text: string, [opening, closing]: readonly [string, string], read: (body: string) => void): string {
    let outside = "";
    let rest = 0;
    for (const { start, body, end } of this.blocks(text, opening, closing)) {
      outside += text.slice(rest, start);
      rest = end;
      read(body);
    }
    return outside + text.slice(rest);
  }

  /** Reads JSON. Errors of Python are reported and thrown on: formats differ in what they catch. */
  readJson(text: string): JsonValue {
    try {
      return parseJson(text);
    } catch (error) {
      if (error instanceof JsonSyntaxError) {
        this.report("not-json", text, `The call is not valid JSON: ${error.pythonMessage}.`, guessName(text));
      }
      throw error;
    }
  }

  /** Reads JSON; `undefined` for a decode error of Python; other errors (depth, digits) escape. */
  tryJson(text: string): JsonValue | undefined {
    try {
      return this.readJson(text);
    } catch (error) {
      if (error instanceof JsonSyntaxError && error.pythonType === "JSONDecodeError") return undefined;
      throw error;
    }
  }

  /** Reads the calls in JSON from `source`; unknown and nameless ones are reported and omitted. */
  callsIn(value: JsonValue, source: string): DetectedCall[] {
    const calls: DetectedCall[] = [];
    for (const entry of Array.isArray(value) ? value : [value]) {
      const object = this.object(entry, source);
      const name = object.get("name") ?? null;
      if (!this.isCallable(name, source)) continue;
      const parameters = object.get("parameters") ?? null;
      const given = isTruthy(parameters) ? parameters : object.has("arguments") ? object.get("arguments")! : new Map();
      calls.push(this.call(name, dumpJson(given)));
    }
    return calls;
  }

  /** A call as an object; raises as the reference does for anything else. */
  object(call: JsonValue, source: string): JsonObject {
    if (call instanceof Map) return call;
    const type = pythonTypeName(call);
    this.report("not-an-object", source, `A call must be a JSON object, not ${jsonTypeNames[type]}.`);
    throw new PythonError("AttributeError", `a call that is a Python ${type}`);
  }

  /** A call from a name and arguments that a format has read itself; empty if the tool is unknown. */
  named(name: string, toolArguments: PythonValue, source: string): DetectedCall[] {
    return this.isCallable(name, source) ? [this.call(name, dumpJson(toolArguments))] : [];
  }

  /** A call as the reference records it; the reference refuses names that are not strings. */
  call(name: JsonValue, parameters: string, toolIndex: number = this.#indexOf(name)): DetectedCall {
    if (name !== null && typeof name !== "string") {
      throw new PythonError("ValidationError", "a call's name must be a string");
    }
    return { name, parameters, toolIndex };
  }

  /** True if a call of this name is accepted; otherwise reports the reason. */
  isCallable(name: JsonValue, source: string): boolean {
    if (isTruthy(name) && typeof name === "object" && (Array.isArray(name) || name instanceof Map)) {
      this.report("no-name", source, `The call's "name" must be a string, not ${jsonTypeNames[pythonTypeName(name)]}.`);
      throw new PythonError("TypeError", `a name that is a Python ${pythonTypeName(name)}`);
    }
    if (typeof name === "string" && this.hasTool(name)) return true;
    if (typeof name === "string" && name !== "") this.reportUnknown(name, source);
    else this.report("no-name", source, 'The call has no "name".');
    return this.forwardUnknownTools;
  }

  /** Reports an unknown tool in formats that accept calls of unknown tools. */
  reportUnknown(name: string, source: string): void {
    if (!this.hasTool(name)) this.report("unknown-tool", source, `There is no tool "${name}".`, name);
  }

  #indexOf(name: JsonValue): number {
    if (typeof name === "string") return this.#indices.get(name) ?? -1;
    if (Array.isArray(name) || name instanceof Map) {
      throw new PythonError("TypeError", `a name that is a Python ${pythonTypeName(name)}`);
    }
    return -1;
  }
}

const jsonTypeNames = {
  NoneType: "null",
  bool: "a boolean",
  int: "a number",
  float: "a number",
  str: "a string",
  list: "a list",
  dict: "an object",
} as const;

/** The tool that invalid JSON calls, if its name is still recognizable. */
export function guessName(text: string): string | null {
  return /"name"\s*:\s*"([^"\\\n]{1,200})"/.exec(text)?.[1] ?? null;
}

/** The declared properties of a tool's arguments; empty if there are none to read. */
export function toolProperties(tool: Tool | undefined): ReadonlyMap<string, JsonValue> {
  return schemaProperties(declaredParameters(tool));
}

/**
 * The properties that a schema declares: its own, else those of its alternatives and parts, where
 * the first declaration of a name counts. Empty for values that are not a schema.
 */
export function schemaProperties(schema: JsonValue | undefined): ReadonlyMap<string, JsonValue> {
  if (!(schema instanceof Map)) return new Map();
  const properties = schema.get("properties");
  if (properties instanceof Map) return properties;
  const merged = new Map<string, JsonValue>();
  for (const branch of ["anyOf", "oneOf", "allOf"].flatMap((keyword) => listOf(schema.get(keyword)))) {
    for (const [name, declared] of schemaProperties(branch)) if (!merged.has(name)) merged.set(name, declared);
  }
  return merged;
}

const listOf = (value: JsonValue | undefined): readonly JsonValue[] => (Array.isArray(value) ? value : []);

/** Value of `parameters` in a tool's definition, of any type; `undefined` if there is none. */
export function declaredParameters(tool: Tool | undefined): JsonValue | undefined {
  const body = tool?.definition.get("function");
  return body instanceof Map ? body.get("parameters") : undefined;
}

/** Schema of one parameter; `undefined` if absent. Raises for declarations that are not objects. */
export function declaredSchema(parameters: JsonValue | undefined, name: string): JsonObject | undefined {
  const schema = schemaProperties(parameters).get(name);
  if (schema === undefined || schema instanceof Map) return schema;
  throw new PythonError("AttributeError", "the schema is no object");
}
