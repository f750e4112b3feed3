// Finds calls that a model writes in another format than its own: bare JSON, a code fence, other
// tags, the format of another family. The model's parser and its server do not read them, so they
// would reach the user as text. Instead the model is informed, and repair mode executes calls that
// have only one reading. A call names a declared tool and has an object of arguments; other JSON is
// data.

import type { ParseProblem, Tool } from "../core/index.ts";
import {
  dumpJson,
  type JsonObject,
  type JsonValue,
  parseJson,
  parseJsonPrefix,
} from "../python-semantics/json/index.ts";
import { pythonStrip, unlessRaised } from "../python-semantics/index.ts";
import { callExample, calledName, spelledCall, spelledFormats } from "./spelled-calls.ts";
import { type DetectedCall } from "./tool-call-scan.ts";
import type { ToolCallParser } from "./tool-call-parser.ts";
import { readTolerantJson } from "./tolerant-json.ts";

export type OtherFormatOptions = {
  readonly tools: readonly Tool[];
  /** Name of the parser that read no call; the example is in its format. */
  readonly parser: string;
  /** True if the text is complete. JSON with missing brackets is examined only then. */
  readonly isWhole: boolean;
  /**
   * Parsers of other formats whose calls repair mode may execute; empty: calls in the formats of
   * other families are found but not read.
   */
  readonly otherParsers: readonly ToolCallParser[];
};

export type OtherFormat = {
  /** Code "other-format"; its detail ends with an example in the model's own format. */
  readonly problem: ParseProblem;
  /** Form of the call, phrased to follow "as". */
  readonly form: string;
  /**
   * Calls that may be executed: all calls of a text that contains nothing else. Empty if there is
   * more than one reading.
   */
  readonly calls: readonly DetectedCall[];
};

/**
 * Reads calls that are written in another format; `null` if the text is not a call at all. Meant
 * for text in which the model's own parser found no call. Never throws; time is linear in the text.
 */
export function readOtherFormat(text: string, options: OtherFormatOptions): OtherFormat | null {
  const { tools, parser } = options;
  if (tools.length === 0) return null;
  const stripped = pythonStrip(text);
  if (stripped === "") return null;
  const found = readWhole(stripped, options) ?? findForeign(stripped, options) ?? findInProse(stripped, tools);
  if (found === null) return null;
  const { form, toolName } = found;
  const detail = `It was written as ${form}, which is not read here. ${callExample(parser, found, tools)}`;
  return { problem: { code: "other-format", text: stripped, toolName, detail }, form, calls: found.calls };
}

type Found = {
  /** Form of the call, phrased to follow "as". */
  readonly form: string;
  readonly toolName: string;
  readonly arguments: JsonObject | null;
  readonly calls: readonly DetectedCall[];
};

// Text that contains only calls as JSON, in any wrapping.

type JsonCall = { readonly name: string; readonly arguments: JsonObject };

/**
 * Wrapping that may surround JSON: fences with a word, tags, separators. The end of a wrapping is
 * never searched for, so a scan is linear.
 */
const wrapping =
  /\s+|[,;]|```[\w-]{0,20}|<\/?[A-Za-z_][\w:.-]{0,40}>|<\|\/?[A-Za-z_][\w:.-]{0,40}\|>|\[\/?[A-Z_]{1,20}\]/y;

/**
 * Tags that contain calls. The content of other tags (a thought, an example) may not be meant as a
 * call.
 */
const callTags = /tool|func|call|response|answer|action|output|json|plugin|python/i;

function readWhole(text: string, { tools, isWhole }: OtherFormatOptions): Found | null {
  let form = "";
  let isPlain = true;
  const calls: JsonCall[] = [];
  for (let at = 0; at < text.length;) {
    wrapping.lastIndex = at;
    const piece = wrapping.exec(text)?.[0];
    if (piece !== undefined) {
      at += piece.length;
      if (piece.startsWith("```")) form ||= "a code block";
      else if (piece.length > 2 && !/^\s/.test(piece)) {
        form ||= `JSON in ${piece}`;
        isPlain &&= callTags.test(piece);
      }
      continue;
    }
    if (text[at] !== "{" && text[at] !== "[") return null;
    const json = parseJsonPrefix(text, at);
    const rest = json.type === "error" && isWhole ? nearJson(text.slice(at)) : null;
    const value = json.type === "value" ? json.value : rest;
    const read = value === null ? null : callsIn(value);
    if (read === null) return null;
    calls.push(...read);
    form ||= "bare JSON";
    at = json.type === "value" ? json.end : text.length;
  }
  const isDeclared = declaredIn(tools);
  const first = calls.find(({ name }) => isDeclared(name));
  if (first === undefined) return null;
  const isClear = isPlain && calls.every(({ name }) => isDeclared(name));
  return { form, toolName: first.name, arguments: first.arguments, calls: isClear ? calls.map(detected) : [] };
}

/** JSON that is nearly right, without the wrapping after it. */
function nearJson(text: string): JsonValue {
  const end = Math.max(text.lastIndexOf("}"), text.lastIndexOf("]")) + 1;
  if (end === 0 || !isWrapping(text.slice(end))) return null;
  return readTolerantJson(text.slice(0, end))?.value ?? null;
}

function isWrapping(text: string): boolean {
  for (let at = 0; at < text.length;) {
    wrapping.lastIndex = at;
    const piece = wrapping.exec(text)?.[0];
    if (piece === undefined) return false;
    at += piece.length;
  }
  return true;
}

const detected = (call: JsonCall): DetectedCall => ({
  name: call.name,
  parameters: dumpJson(call.arguments),
  toolIndex: -1,
});

const declaredIn = (tools: readonly Tool[]): ((name: string) => boolean) => {
  const names = new Set(tools.map(({ name }) => name));
  return (name) => names.has(name);
};

/** Maximum nesting of lists and wrappers around a call. */
const mostWrappers = 4;
const nameKeys = ["name", "function", "tool", "tool_name"];
const argumentKeys = ["arguments", "parameters", "input", "args"];
const wrapperKeys = ["tool_calls", "tool_call", "function_call", "function_calls", "function"];
const idleKeys = new Set(["id", "call_id", "type", "index", "role"]);

/** All calls of a value that consists only of calls; `null` for any other value. */
function callsIn(value: JsonValue, depth = 0): JsonCall[] | null {
  if (depth > mostWrappers) return null;
  if (Array.isArray(value)) {
    const calls = value.map((item) => callsIn(item, depth + 1));
    return calls.length > 0 && calls.every((one) => one !== null) ? calls.flat() : null;
  }
  if (!(value instanceof Map)) return null;
  const keys = [...value.keys()].filter((key) => !idleKeys.has(key) && !isEmptyContent(key, value.get(key)));
  const [only] = keys;
  if (keys.length === 1 && wrapperKeys.includes(only!)) return callsIn(value.get(only!)!, depth + 1);
  const nameKey = keys.find((key) => nameKeys.includes(key));
  const argumentKey = keys.find((key) => argumentKeys.includes(key));
  if (keys.length !== 2 || nameKey === undefined || argumentKey === undefined) return null;
  const name = value.get(nameKey);
  const given = value.get(argumentKey);
  const toolArguments = typeof given === "string" ? unlessRaised(null, () => parseJson(given)) : given;
  if (typeof name !== "string" || !(toolArguments instanceof Map) || isSchema(toolArguments)) return null;
  return [{ name, arguments: toolArguments }];
}

/** Empty content, as in a message that consists only of calls. */
const isEmptyContent = (key: string, value: JsonValue | undefined): boolean =>
  key === "content" && (value === null || value === "");

/** Parameters that are a schema, as in a tool's definition. */
const isSchema = (value: JsonObject): boolean =>
  value.get("type") === "object" && value.get("properties") instanceof Map;

// Calls in the format of another family. Their beginnings are listed here, so that its parser need
// not be loaded.

/** Formats whose calls begin like those of a more common format, but are read differently. */
const twins: ReadonlySet<string> = new Set([
  "cohere_command3",
  "ernie45",
  "granite4",
  "hunyuan_a13b",
  "hy_v3",
  "hy_v4",
  "ling3",
  "mimo",
  "qwen3_json",
  "trinity",
  "xlam",
]);

/**
 * Formats that drop all text around their calls, so that an answer with only a call cannot be
 * distinguished from one with further text.
 */
const careless: ReadonlySet<string> = new Set(["olmo3", "phi4_mini_json"]);

/** Formats that are detected here by the beginning of their calls. */
export const otherFormatNames: readonly string[] = spelledFormats.filter((format) => !twins.has(format));

type Opening = { readonly format: string; readonly before: string; readonly after: string };

/**
 * Text before and after the name in each format, without white space, which differs between models
 * and templates.
 */
export function formatOpenings(): readonly Opening[] {
  openings ??= otherFormatNames.map((format) => {
    const [before = "", after = ""] = withoutBlanks(spelledCall(format, calledName)!).split(calledName);
    return { format, before, after: after[0] ?? "" };
  });
  return openings;
}
let openings: readonly Opening[] | null = null;

/** Every opening contains one of these characters, and most sentences none. */
export const callCharacters = /[<[={(]/;

/** Shorter openings, such as the bracket of `pythonic`, occur in many texts. */
const shortestMarker = 6;
/**
 * Maximum number of occurrences of one opening that are examined: each may cost as much as the
 * whole text.
 */
const mostPlaces = 32;

function findForeign(whole: string, { tools, otherParsers }: OtherFormatOptions): Found | null {
  if (!callCharacters.test(whole)) return null;
  const text = withoutFence(whole);
  const bare = withoutBlanks(text);
  const called = tools.find(({ name }) => name !== "" && bare.startsWith(`${name}(`));
  if (called !== undefined && bare.endsWith(")")) {
    const calls = readForeign(`[${text}]`, tools, otherParsers);
    return { form: "a call in Python", toolName: called.name, arguments: null, calls };
  }
  for (const { format, before, after } of formatOpenings()) {
    let at = bare.startsWith(before) ? 0 : before.length < shortestMarker ? -1 : bare.indexOf(before);
    for (let places = 0; at !== -1 && places < mostPlaces; places++) {
      const start = at + before.length;
      const tool = tools.find(({ name }) => name !== "" && bare.startsWith(name + after, start));
      if (tool !== undefined) {
        const form = `a call of another model family (${format})`;
        return { form, toolName: tool.name, arguments: null, calls: readForeign(text, tools, otherParsers) };
      }
      at = before.length < shortestMarker ? -1 : bare.indexOf(before, start);
    }
  }
  return null;
}

/** The calls of a text that a parser reads to its end without a problem. */
function readForeign(
  text: string,
  tools: readonly Tool[],
  parsers: readonly ToolCallParser[],
): readonly DetectedCall[] {
  for (const parser of parsers) {
    if (careless.has(parser.name) || !parser.hasToolCall(text)) continue;
    const { calls, problems, content, raised } = parser.parse(text, { tools });
    const isDeclared = declaredIn(tools);
    const areCalls = calls.every(
      ({ name, parameters }) =>
        name !== null && isDeclared(name) && unlessRaised(null, () => parseJson(parameters)) instanceof Map,
    );
    const isAll = pythonStrip(content) === "" && problems.length === 0 && raised === null;
    if (calls.length > 0 && areCalls && isAll) return calls;
  }
  return [];
}

/** Content of the code block, if a text is a single code block. */
function withoutFence(text: string): string {
  const opening = /^```[\w-]{0,20}/.exec(text)?.[0];
  if (opening === undefined || !text.endsWith("```") || text.length < opening.length + 3) return text;
  return pythonStrip(text.slice(opening.length, -3));
}

function withoutBlanks(text: string): string {
  return text.replace(/\s/g, "");
}

/** True if a text that is still being sampled may turn out to be only a call in another format. */
export function mayBeOtherFormat(text: string): boolean {
  return /^\s*(?:[{[<\]`]|to=[\w.]*(?:<|$)|[A-Za-z_][\w.-]*(?:\(|$)|$)/.test(text);
}

// Calls beside other text: the model either meant the call or explains one. The model is informed,
// and nothing is executed.

function findInProse(text: string, tools: readonly Tool[]): Found | null {
  const isDeclared = declaredIn(tools);
  for (let [places, at] = [0, firstBracket(text, 0)]; at < text.length && places < mostPlaces; places++) {
    const json = parseJsonPrefix(text, at);
    const calls = json.type === "value" ? callsIn(json.value) : null;
    const call = calls?.find(({ name }) => isDeclared(name));
    if (call !== undefined) {
      return { form: "JSON beside other text", toolName: call.name, arguments: call.arguments, calls: [] };
    }
    // JSON nested in other data is data, not a call.
    at = firstBracket(text, json.type === "value" ? json.end : at + 1);
  }
  return null;
}

function firstBracket(text: string, from: number): number {
  const [brace, bracket] = [text.indexOf("{", from), text.indexOf("[", from)];
  return Math.min(brace === -1 ? Infinity : brace, bracket === -1 ? Infinity : bracket);
}
