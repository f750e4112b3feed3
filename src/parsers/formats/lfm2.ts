// Tool calls of LFM2: JSON or Python calls between markers. A block that is neither is skipped.

import { JsonSyntaxError } from "../../python-semantics/json/index.ts";
import {
  argumentValue,
  callsOf,
  dumpPython,
  makeDict,
  parseFirstStatementValue,
  PythonError,
  pythonExceptionType,
  pythonStrip,
  type PythonValue,
} from "../../python-semantics/index.ts";
import { formatHints } from "../format-hints.ts";
import { blocksBetween } from "../text-blocks.ts";
import { createToolCallParser } from "../tool-call-parser.ts";
import type { DetectedCall, ToolCallScan } from "../tool-call-scan.ts";

const opening = "<|tool_call_start|>";
const closing = "<|tool_call_end|>";

export const lfm2 = createToolCallParser({
  name: "lfm2",
  markers: [opening, closing],
  hints: formatHints({ wordsEnd: [opening], callEnds: [closing], nesting: [[opening, closing]] }),
  hasToolCall: (text) => text.includes(opening),
  detect: (text, scan) => {
    const first = text.indexOf(opening);
    if (first === -1) return text;
    let rest = 0;
    for (const { body, end } of blocksBetween(text, opening, closing)) {
      rest = end;
      scan.add(readBlock(pythonStrip(body), scan));
    }
    const unclosed = text.indexOf(opening, rest);
    if (unclosed !== -1)
      scan.report("unterminated-call", text.slice(unclosed), `The call does not end with ${closing}.`);
    return pythonStrip(text.slice(0, first));
  },
});

function readBlock(content: string, scan: ToolCallScan): readonly DetectedCall[] {
  if (content.startsWith("[{") || content.startsWith("{")) {
    const value = scan.tryJson(content);
    const calls = value === undefined ? [] : scan.callsIn(value, content);
    if (calls.length > 0) return calls;
  }
  try {
    return readPythonCalls(content, scan);
  } catch (error) {
    if (pythonExceptionType(error) === null || error instanceof JsonSyntaxError) throw error;
    if (!content.startsWith("{") && !content.startsWith("[{")) {
      scan.report("not-json", content, "The call is neither JSON nor a Python call with literal arguments.");
    }
    return [];
  }
}

function readPythonCalls(content: string, scan: ToolCallScan): readonly DetectedCall[] {
  const node = parseFirstStatementValue(content);
  const calls = node === null ? null : callsOf(node.type === "list" ? node.items : [node]);
  if (calls === null) throw new PythonError("ValueError", "not calls");
  return calls.flatMap(({ name, keywords }, index) => {
    if (name === null || !scan.isCallable(name, content)) return [];
    const entries: [PythonValue, PythonValue][] = [];
    for (const keyword of keywords) {
      if (keyword.name === null) continue;
      try {
        entries.push([keyword.name, argumentValue(keyword.value, true)]);
      } catch (error) {
        if (!(error instanceof PythonError) || error.pythonType !== "ValueError") throw error;
        scan.report("not-json", content, `The argument "${keyword.name}" is not a literal.`, name);
        return [];
      }
    }
    return [scan.call(name, dumpPython(makeDict(entries)), index)];
  });
}
