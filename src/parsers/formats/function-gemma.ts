// FunctionGemma's tool calls: the arguments in braces, each value between two equal tags. vLLM reads
// them, and SGLang does not; calls of unknown tools are accepted, and a last call need not end.

import { dumpJson, JsonSyntaxError, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { pythonStrip } from "../../python-semantics/index.ts";
import { createToolCallParser } from "../tool-call-format.ts";

const opening = "<start_function_call>";
const closing = "<end_function_call>";
const escape = "<escape>";
const word = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Join_Control}\\p{Pc}]";
const header = new RegExp(`${opening}call:(${word}+)\\{`, "gu");
const key = new RegExp(`(?<!${word})(${word}+):${escape}`, "gu");

export const functionGemma = createToolCallParser({
  name: "functiongemma",
  markers: [opening, closing, escape],
  hints: { nesting: { [opening]: closing } },
  opening,
  isAllOrNothing: true,
  detect: (text, scan, start) => {
    header.lastIndex = 0;
    for (let found = header.exec(text); found !== null; found = header.exec(text)) {
      const [, name = ""] = found;
      const from = header.lastIndex;
      const end = text.indexOf(`}${closing}`, from);
      const source = text.slice(found.index, end === -1 ? text.length : end + 1 + closing.length);
      scan.reportUnknown(name, source);
      scan.add([scan.call(name, dumpJson(readArguments(end === -1 ? text.slice(from) : text.slice(from, end))))]);
      if (end === -1) break;
      header.lastIndex = end + 1 + closing.length;
    }
    return scan.calls.length === 0 ? text : pythonStrip(text.slice(0, start));
  },
});

/** Values that are JSON count as such; others are strings. */
function readArguments(text: string): JsonValue {
  const read = new Map<string, JsonValue>();
  key.lastIndex = 0;
  for (let found = key.exec(text); found !== null; found = key.exec(text)) {
    const end = text.indexOf(escape, key.lastIndex);
    if (end === -1) break;
    read.set(found[1]!, valueOf(text.slice(key.lastIndex, end)));
    key.lastIndex = end + escape.length;
  }
  return read;
}

function valueOf(text: string): JsonValue {
  try {
    return parseJson(text);
  } catch (error) {
    if (error instanceof JsonSyntaxError && error.pythonType === "JSONDecodeError") return text;
    throw error;
  }
}
