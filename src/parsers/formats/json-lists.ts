// Tool calls as a list of JSON objects, as xLAM and Hunyuan A13B write them. vLLM reads them, and
// SGLang does not; calls of unknown tools are accepted, and objects without a name and arguments
// are skipped.

import { dumpJson, JsonSyntaxError, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { PythonError, pythonStrip } from "../../python-semantics/index.ts";
import { blocksBetween } from "../text-pieces.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import { guessName, type ToolCallScan } from "../tool-call-scan.ts";

/** Content, and the text of the list with its value. */
type Found = { readonly content: string; readonly source: string; readonly value: JsonValue };

/** `undefined` for text that is not JSON; other errors of Python escape. */
function jsonIn(text: string): JsonValue | undefined {
  try {
    return parseJson(text);
  } catch (error) {
    if (error instanceof JsonSyntaxError && error.pythonType === "JSONDecodeError") return undefined;
    throw error;
  }
}

/** Adds the calls of a list, and returns the content of the answer. */
function addList({ content, source, value }: Found, text: string, scan: ToolCallScan): string {
  if (!Array.isArray(value)) {
    // Other data in a fence is a part of an answer, although the servers drop it.
    const isCall = value instanceof Map && value.has("name") && value.has("arguments");
    if (isCall) scan.report("not-an-object", source, "The calls must be a JSON list.", guessName(source));
    return content === "" ? text : content;
  }
  for (const call of value) {
    const [name, given] = call instanceof Map ? [call.get("name"), call.get("arguments")] : [];
    if (name === undefined || given === undefined) {
      const problem = 'A call must be a JSON object with "name" and "arguments".';
      scan.report("not-an-object", source, problem, guessName(source));
    } else if (typeof name !== "string" || !(typeof given === "string" || given instanceof Map)) {
      scan.report("no-name", source, 'The "name" of a call must be a string, its "arguments" an object.');
      throw new PythonError("ValidationError", "a call of another type");
    } else {
      scan.reportUnknown(name, source);
      scan.add([scan.call(name, typeof given === "string" ? given : dumpJson(given))]);
    }
  }
  return content;
}

const calls = "<tool_calls>";
const callsEnd = "</tool_calls>";
const [think, thinkEnd] = ["<think>", "</think>"];

/** Without the word that the template asks for before an answer. */
const withoutSpeaker = (text: string): string => text.replace("助手：", "");

/** The first list between tags, outside of reasoning, that is JSON. */
export const hunyuanA13b = createToolCallParser({
  name: "hunyuan_a13b",
  markers: [calls, callsEnd],
  hints: { nesting: { [calls]: callsEnd } },
  opening: calls,
  isAllOrNothing: true,
  plainText: withoutSpeaker,
  detect: (text, scan) => {
    const thoughts = [...blocksBetween(text, think, thinkEnd)];
    let thought = 0;
    for (const { start, body, end } of blocksBetween(text, calls, callsEnd)) {
      while (thought < thoughts.length && thoughts[thought]!.end <= end) thought++;
      if (thought < thoughts.length && start > thoughts[thought]!.start) continue;
      const source = pythonStrip(body);
      let value: JsonValue;
      try {
        value = parseJson(source);
      } catch (error) {
        if (!(error instanceof JsonSyntaxError)) throw error;
        scan.report("not-json", source, `The calls are not valid JSON: ${error.pythonMessage}.`, guessName(source));
        continue;
      }
      const content = addList({ content: text.slice(0, start), source, value }, text, scan);
      return Array.isArray(value) && pythonStrip(content) === "" ? "" : content;
    }
    return withoutSpeaker(text);
  },
});

const fence = "```";
const toolCall = "<tool_call>";
const toolCallEnd = "</tool_call>";
const callsMarker = "[TOOL_CALLS]";

type Block = { readonly start: number; readonly body: string; readonly end: number };

function* fenced(text: string): Generator<Block> {
  for (const { start, body, end } of blocksBetween(text, fence, fence)) {
    yield { start, end, body: body.replace(/^(?:json)?\p{White_Space}*/u, "") };
  }
}

/** The rest of each line after the marker. */
function* marked(text: string): Generator<Block> {
  for (let start = text.indexOf(callsMarker); start !== -1;) {
    const from = start + callsMarker.length;
    const lineEnd = text.indexOf("\n", from);
    const end = lineEnd === -1 ? text.length : lineEnd;
    yield { start, body: text.slice(from, end), end };
    start = text.indexOf(callsMarker, end);
  }
}

const blockKinds = [fenced, marked, (text: string) => blocksBetween(text, toolCall, toolCallEnd)];

/** The first block that is JSON, of the first kind that has one; all blocks of its kind are cut out of the content. */
function blockIn(text: string): Found | null {
  for (const blocksOf of blockKinds) {
    const blocks = [...blocksOf(text)];
    for (const { body: source } of blocks) {
      const value = jsonIn(source);
      if (value === undefined) continue;
      let content = "";
      let rest = 0;
      for (const { start, end } of blocks) {
        content += text.slice(rest, start);
        rest = end;
      }
      return { content: pythonStrip(content + text.slice(rest)), source, value };
    }
  }
  return null;
}

/** `null` if the text has no list of calls. */
function listIn(text: string): Found | null {
  const at = text.indexOf(thinkEnd);
  if (at !== -1) {
    const content = pythonStrip(text.slice(0, at + thinkEnd.length));
    const source = pythonStrip(text.slice(at + thinkEnd.length));
    const value = jsonIn(source);
    const found = value === undefined ? blockIn(source) : { content, source, value };
    if (found !== null) return { ...found, content };
  }
  const found = blockIn(text);
  if (found !== null) return found;
  if (!pythonStrip(text).startsWith("[")) return null;
  const value = jsonIn(text);
  return value === undefined ? null : { content: "", source: text, value };
}

/** The same; `null` also for text on which the server gives up. */
function readableList(text: string): Found | null {
  try {
    return listIn(text);
  } catch (error) {
    if (error instanceof JsonSyntaxError) return null;
    throw error;
  }
}

/** A list after the reasoning, in a block of several kinds, or bare. */
export const xlam = createToolCallParser({
  name: "xlam",
  markers: [],
  hints: { contentEnd: [thinkEnd, fence, toolCall, callsMarker], contentEndAtStart: ["["] },
  opening: null,
  signs: [toolCall, callsMarker],
  hasToolCall: (text) => Array.isArray(readableList(text)?.value),
  plainText: (text) => {
    const content = readableList(text)?.content ?? "";
    return content === "" ? text : content;
  },
  isAllOrNothing: true,
  detect: (text, scan) => {
    const found = listIn(text);
    if (found !== null) return addList(found, text, scan);
    if (pythonStrip(text).startsWith("[") && text.includes('"name"') && text.includes('"arguments"')) {
      scan.report("not-json", text, "The list of calls is not valid JSON.", guessName(text));
    }
    return text;
  },
});
