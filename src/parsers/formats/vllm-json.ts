// Tool calls as JSON of families that vLLM reads and SGLang does not: Granite, Jamba, LongCat,
// Phi-4-mini, ERNIE 4.5, InternLM 2. vLLM accepts calls of unknown tools, and one invalid call
// drops all.

import { dumpJson, type JsonObject, type JsonValue, parseJsonPrefix } from "../../python-semantics/json/index.ts";
import { PythonError, pythonTypeName } from "../../python-semantics/index.ts";
import { openBlocks } from "../text-pieces.ts";
import { createToolCallParser, type ToolCallFormat } from "../tool-call-format.ts";
import { guessName, type ToolCallScan } from "../tool-call-scan.ts";

const raise = (type: string): never => {
  throw new PythonError(type, "a call without its parts");
};

/** The value of a required key of a call. */
function partOf(call: JsonValue, key: string, source: string, scan: ToolCallScan): JsonValue {
  if (call instanceof Map && call.has(key)) return call.get(key)!;
  scan.report("not-an-object", source, 'A call must be a JSON object with "name" and "arguments".', guessName(source));
  return raise(call instanceof Map ? "KeyError" : "TypeError");
}

function addCall(scan: ToolCallScan, name: JsonValue, parameters: string, source: string): void {
  if (typeof name !== "string") {
    scan.report("no-name", source, 'The "name" of a call must be a string.');
    raise("ValidationError");
  } else {
    scan.reportUnknown(name, source);
    scan.add([scan.call(name, parameters)]);
  }
}

/** An object with "name" and "arguments". */
function addNamedCall(scan: ToolCallScan, call: JsonValue, source: string): void {
  const name = partOf(call, "name", source, scan);
  addCall(scan, name, dumpJson(partOf(call, "arguments", source, scan)), source);
}

/** Each call between tags; the last one need not be closed. */
function hermesLike(name: string, opening: string, closing: string): ToolCallFormat {
  return {
    name,
    markers: [opening, closing],
    hints: { nesting: { [opening]: closing } },
    opening,
    isAllOrNothing: true,
    detect: (text, scan, start) => {
      for (const body of openBlocks(text, opening, closing)) addNamedCall(scan, scan.readJson(body), body);
      return text.slice(0, start);
    },
  };
}

export const longcat = createToolCallParser(hermesLike("longcat", "<longcat_tool_call>", "</longcat_tool_call>"));
export const qwen3Json = createToolCallParser(hermesLike("qwen3_json", "<tool_call>", "</tool_call>"));

const functionCall = "<function_call>";
const functionCallWithBlanks = /<function_call>\p{White_Space}*/gu;

/** JSON after each marker; text after the JSON is dropped. */
export const granite20bFc = createToolCallParser({
  name: "granite-20b-fc",
  markers: [functionCall],
  opening: functionCall,
  isAllOrNothing: true,
  detect: (text, scan, start) => {
    const places = [...text.matchAll(functionCallWithBlanks)];
    const values = places.map((place, index) => {
      const source = text.slice(place.index + place[0].length, places[index + 1]?.index);
      const prefix = parseJsonPrefix(source, 0);
      if (prefix.type === "value") return { value: prefix.value, source };
      scan.report("not-json", source, `The call is not valid JSON: ${prefix.error.pythonMessage}.`, guessName(source));
      throw prefix.error;
    });
    for (const { value, source } of values) addNamedCall(scan, value, source);
    return text.slice(0, start);
  },
});

const toolCall = "<tool_call>";
const toolCallEnd = "</tool_call>";
const toolCallTags = /<tool_call>|<\/tool_call>/g;

/** The tags must alternate. Text around the calls stays. */
export const granite4 = createToolCallParser({
  name: "granite4",
  markers: [toolCall, toolCallEnd],
  hints: { contentEnd: [toolCall, toolCallEnd], nesting: { [toolCall]: toolCallEnd } },
  opening: null,
  signs: [toolCall, toolCallEnd],
  hasToolCall: (text) => text.includes(toolCall) || text.includes(toolCallEnd),
  isAllOrNothing: true,
  detect: (text, scan) => {
    const bodies: string[] = [];
    let outside = "";
    let rest = 0;
    let isOpen = false;
    const fail = (): never => {
      scan.report("unterminated-call", text.slice(rest), `Each ${toolCall} must end with ${toolCallEnd}.`);
      return raise("AssertionError");
    };
    for (const { 0: tag, index } of text.matchAll(toolCallTags)) {
      if (isOpen === (tag === toolCall)) fail();
      const piece = text.slice(rest, index);
      if (isOpen && piece === "") fail();
      if (isOpen) bodies.push(piece);
      else outside += piece;
      isOpen = !isOpen;
      rest = index + tag.length;
    }
    if (isOpen) fail();
    const values = bodies.map((body) => scan.readJson(body));
    for (const [index, value] of values.entries()) {
      const body = bodies[index]!;
      const name = partOf(value, "name", body, scan);
      const given = partOf(value, "arguments", body, scan);
      if (given === null) partOf(null, "arguments", body, scan);
      addCall(scan, name, typeof given === "string" ? given : dumpJson(given), body);
    }
    return outside + text.slice(rest);
  },
});

const jambaCalls = "<tool_calls>";
const jambaCallsEnd = "</tool_calls>";

/** A JSON list between tags; only the first one counts. */
export const jamba = createToolCallParser({
  name: "jamba",
  markers: [jambaCalls, jambaCallsEnd],
  hints: { nesting: { [jambaCalls]: jambaCallsEnd } },
  opening: jambaCalls,
  isAllOrNothing: true,
  detect: (text, scan, start) => {
    for (const { body } of scan.blocks(text, jambaCalls, jambaCallsEnd)) {
      for (const call of itemsOf(scan.readJson(body), body, scan)) addNamedCall(scan, call, body);
      const before = text.slice(0, start);
      return before === " " ? "" : before;
    }
    return raise("IndexError");
  },
});

/** Items over which Python iterates. */
function itemsOf(value: JsonValue, source: string, scan: ToolCallScan): readonly JsonValue[] {
  if (Array.isArray(value)) return value;
  if (value instanceof Map) return [...value.keys()];
  if (typeof value === "string") return Array.from(value);
  scan.report("not-an-object", source, `The calls must be a JSON list, not a Python ${pythonTypeName(value)}.`);
  return raise("TypeError");
}

const functools = "functools[";

/**
 * A JSON list, up to the first bracket that closes. The rest of the text is dropped, even if the
 * list is not JSON.
 */
export const phi4MiniJson = createToolCallParser({
  name: "phi4_mini_json",
  markers: [functools],
  opening: functools,
  hasToolCall: (text) => text.indexOf("]", text.indexOf(functools)) > -1 && text.includes(functools),
  isAllOrNothing: true,
  detect: (text, scan, start) => {
    const end = text.indexOf("]", start);
    if (end === -1) return text;
    const source = text.slice(start + functools.length - 1, end + 1);
    const calls = scan.tryJson(source) ?? [];
    for (const call of itemsOf(calls, source, scan)) {
      const name = partOf(call, "name", source, scan);
      const key = (call as JsonObject).has("arguments") ? "arguments" : "parameters";
      addCall(scan, name, dumpJson(partOf(call, key, source, scan)), source);
    }
    return "";
  },
});

const ernieOpening = /<tool_call>\p{White_Space}*\{/gu;
const ernieClosing = /\}\p{White_Space}*<\/tool_call>/gu;

/** An object between tags; other text between them is skipped. */
export const ernie45 = createToolCallParser({
  name: "ernie45",
  markers: [toolCall, toolCallEnd],
  hints: { nesting: { [toolCall]: toolCallEnd } },
  opening: toolCall,
  isAllOrNothing: true,
  detect: (text, scan, start) => {
    ernieOpening.lastIndex = 0;
    for (let open = ernieOpening.exec(text); open !== null; open = ernieOpening.exec(text)) {
      const from = ernieOpening.lastIndex;
      ernieClosing.lastIndex = from;
      const close = ernieClosing.exec(text);
      if (close === null) break;
      const source = text.slice(from - 1, close.index + 1);
      const value = scan.readJson(source);
      const call = value instanceof Map ? value : new Map<string, JsonValue>();
      const [name, given] = [call.get("name"), call.get("arguments")];
      addCall(scan, name === undefined ? "" : name, dumpJson(given === undefined ? new Map() : given), source);
      ernieOpening.lastIndex = ernieClosing.lastIndex;
    }
    let end = start;
    while (end > 0 && text[end - 1] === "\n") end--;
    return text.slice(0, end);
  },
});

const action = "<|action_start|><|plugin|>";
const actionEnd = "<|action_end|>";

/** One call. Errors escape as exceptions. */
export const internlm = createToolCallParser({
  name: "internlm",
  markers: ["<|action_start|>", "<|plugin|>", actionEnd],
  hints: { nesting: { [action]: actionEnd } },
  opening: action,
  detect: (text, scan, start) => {
    const behind = text.slice(start + action.length);
    if (behind.includes(action)) {
      scan.report("unterminated-call", behind, "An action may hold only one call.");
      raise("ValueError");
    }
    const [body = ""] = behind.split(actionEnd, 1);
    const brace = body.indexOf("{");
    // Python's slice from -1: the last character.
    const source = brace === -1 ? (Array.from(body).at(-1) ?? "") : body.slice(brace);
    const call = scan.readJson(source);
    const name = partOf(call, "name", source, scan);
    const object = call as JsonObject;
    const given = object.has("parameters") ? object.get("parameters") : object.get("arguments");
    addCall(scan, name, dumpJson(given === undefined ? new Map() : given), source);
    return text.slice(0, start);
  },
});
