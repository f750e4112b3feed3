// What a format collects while it reads one text: calls and problems, and the rules that all formats with JSON
// share: which key holds the name, which the arguments, what is dropped, what raises.

import type { ParseProblem } from "../core/index.ts";
import { dumpJson, JsonSyntaxError, type JsonValue, parseJson } from "../python-semantics/json/index.ts";
import {
  dumpPython,
  isTruthy,
  PythonError,
  pythonExceptionType,
  pythonTypeName,
  type PythonValue,
} from "../python-semantics/index.ts";
import type { ToolTable } from "./tool-table.ts";

/** A call as the reference reports it. */
export type DetectedCall = {
  /** `null` only with `forwardUnknownTools`, when the call has none. */
  readonly name: string | null;
  /** JSON text, in Python's layout where the format re-serializes it; for some formats unchecked text of the model. */
  readonly parameters: string;
  /** Usually the tool's place in the list of tools, -1 for unknown ones; some formats count calls instead. */
  readonly toolIndex: number;
};

/** Problems that are kept; hostile text has one every few characters, each with a text as long as the whole. */
const maxProblems = 64;

export class ToolCallScan {
  readonly table: ToolTable;
  readonly forwardUnknownTools: boolean;
  readonly #calls: DetectedCall[] = [];
  readonly #problems: ParseProblem[] = [];
  #leftOut = 0;

  constructor(table: ToolTable, forwardUnknownTools: boolean) {
    this.table = table;
    this.forwardUnknownTools = forwardUnknownTools;
  }

  get calls(): readonly DetectedCall[] {
    return this.#calls;
  }

  /** The first ones; what is beyond their number is one more, which says how many were left out. */
  get problems(): readonly ParseProblem[] {
    const last = this.#problems.at(-1);
    if (last === undefined || this.#leftOut === 0) return this.#problems;
    const detail = `${this.#leftOut} further problems of this text are left out.`;
    return [...this.#problems, { code: last.code, text: "", toolName: null, detail }];
  }

  add(calls: readonly DetectedCall[]): void {
    for (const call of calls) this.#calls.push(call);
  }

  report(code: ParseProblem["code"], text: string, detail: string, toolName: string | null = null): void {
    if (this.#problems.length < maxProblems) this.#problems.push({ code, text, toolName, detail });
    else this.#leftOut++;
  }

  /** Reads JSON. What Python refuses is reported and thrown on: formats differ in what they catch. */
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

  /** Reads JSON, or gives `undefined` where Python raises a decode error; its other errors (depth, digits) escape. */
  tryJson(text: string): JsonValue | undefined {
    try {
      return this.readJson(text);
    } catch (error) {
      if (error instanceof JsonSyntaxError && error.pythonType === "JSONDecodeError") return undefined;
      throw error;
    }
  }

  /** Runs a format that gives no call at all, and the whole text, when anything in it raises. */
  allOrNothing(text: string, detect: () => string): string {
    try {
      return detect();
    } catch (error) {
      if (pythonExceptionType(error) === null) throw error;
      this.#calls.length = 0;
      return text;
    }
  }

  /**
   * The calls in a JSON value: one object, or a list of them. Unknown and nameless ones are reported and left out.
   * `source` is the text they were read from.
   */
  callsIn(value: JsonValue, source: string): DetectedCall[] {
    const calls: DetectedCall[] = [];
    for (const entry of Array.isArray(value) ? value : [value]) {
      if (!(entry instanceof Map)) {
        const type = pythonTypeName(entry);
        this.report("not-an-object", source, `A call must be a JSON object, not ${jsonTypeNames[type]}.`);
        throw new PythonError("AttributeError", `a call that is a Python ${type}`);
      }
      const name = entry.get("name") ?? null;
      if (!this.isCallable(name, source)) continue;
      const parameters = entry.get("parameters") ?? null;
      const given = isTruthy(parameters) ? parameters : entry.has("arguments") ? entry.get("arguments")! : new Map();
      calls.push(this.call(name, dumpJson(given)));
    }
    return calls;
  }

  /** The call of a name and arguments that a format has read itself; none when the tool is unknown. */
  named(name: string, toolArguments: PythonValue, source: string): DetectedCall[] {
    return this.isCallable(name, source) ? [this.call(name, dumpPython(toolArguments))] : [];
  }

  /** A call as the reference's record takes it: names that are no texts are refused there. */
  call(name: JsonValue, parameters: string, toolIndex: number = this.#indexOf(name)): DetectedCall {
    if (name !== null && typeof name !== "string") {
      throw new PythonError("ValidationError", "a call's name must be a text");
    }
    return { name, parameters, toolIndex };
  }

  /** True when a call of this name is let through; reports why when it is not. */
  isCallable(name: JsonValue, source: string): boolean {
    if (isTruthy(name) && typeof name === "object" && (Array.isArray(name) || name instanceof Map)) {
      this.report("no-name", source, `The call's "name" must be a text, not ${jsonTypeNames[pythonTypeName(name)]}.`);
      throw new PythonError("TypeError", `a name that is a Python ${pythonTypeName(name)}`);
    }
    if (typeof name === "string" && this.table.indices.has(name)) return true;
    if (typeof name === "string" && name !== "") {
      this.report("unknown-tool", source, `There is no tool "${name}".`, name);
    } else {
      this.report("no-name", source, 'The call has no "name".');
    }
    return this.forwardUnknownTools;
  }

  #indexOf(name: JsonValue): number {
    if (typeof name === "string") return this.table.indices.get(name) ?? -1;
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
  str: "a text",
  list: "a list",
  dict: "an object",
} as const;

/** The tool that broken JSON asked for, when its name can still be made out. */
export function guessName(text: string): string | null {
  return /"name"\s*:\s*"([^"\\\n]{1,200})"/.exec(text)?.[1] ?? null;
}
