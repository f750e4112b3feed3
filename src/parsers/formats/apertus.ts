// Apertus 2509: calls are objects with one key, the tool's name, in a JSON array between two
// tokens. An unreadable list ends the search and stays text. Calls are numbered. Thoughts stand
// between two tokens of their own; calls inside them are not part of the reasoning.

import { dumpJson, type JsonValue, parseJsonPrefix } from "../../python-semantics/json/index.ts";
import { pythonStrip } from "../../python-semantics/index.ts";
import { type ReasoningParser, type ReasoningSplit, silentStep } from "../reasoning-parser.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import type { ToolCallScan } from "../tool-call-scan.ts";

const opening = "<|tools_prefix|>[";
const closing = "<|tools_suffix|>";

export const apertus = createToolCallParser({
  name: "apertus2509",
  markers: ["<|tools_prefix|>", closing],
  hints: { callEnds: [closing], nesting: { "<|tools_prefix|>": closing, "[": "]" } },
  opening,
  detect: (text, scan) => {
    let outside = "";
    let rest = 0;
    for (let start = text.indexOf(opening); start !== -1; start = text.indexOf(opening, rest)) {
      const list = parseJsonPrefix(text, start + opening.length - 1);
      if (list.type === "error") {
        if (list.error.pythonType !== "JSONDecodeError") throw list.error;
        const isCut = !text.includes(closing, start);
        const code = isCut ? "unterminated-call" : "not-json";
        scan.report(code, text.slice(start), `The calls are not valid JSON: ${list.error.pythonMessage}.`);
        break;
      }
      const end = text.indexOf(closing, list.end);
      if (end === -1) {
        scan.report("unterminated-call", text.slice(start), `The calls do not end with ${closing}.`);
        break;
      }
      for (const item of Array.isArray(list.value) ? list.value : [list.value]) readCall(item, scan);
      outside += text.slice(rest, start);
      rest = end + closing.length;
    }
    return pythonStrip(outside + text.slice(rest));
  },
});

function readCall(item: JsonValue, scan: ToolCallScan): void {
  const source = dumpJson(item);
  const [first] = item instanceof Map ? item : [];
  if (first === undefined) {
    scan.report("not-an-object", source, "A call must be a JSON object whose key names the tool.");
    return;
  }
  const [name, given] = first;
  if (!scan.isCallable(name, source)) return;
  scan.add([scan.call(name, dumpJson(given ?? new Map()), scan.calls.length)]);
}

const thoughtOpening = "<|inner_prefix|>";
const thoughtClosing = "<|inner_suffix|>";

export const apertusReasoning: ReasoningParser = {
  name: "apertus2509",
  markers: [thoughtOpening, thoughtClosing],
  hasTags: true,
  split: (text) => {
    const reasoning: string[] = [];
    const rest: string[] = [];
    let at = 0;
    for (let start = text.indexOf(thoughtOpening); start !== -1; start = text.indexOf(thoughtOpening, at)) {
      rest.push(text.slice(at, start));
      const inside = start + thoughtOpening.length;
      const end = text.indexOf(thoughtClosing, inside);
      const thought = splitThought(text.slice(inside, end === -1 ? text.length : end));
      reasoning.push(thought.reasoning);
      rest.push(thought.normalText);
      at = end === -1 ? text.length : end + thoughtClosing.length;
    }
    return { reasoning: reasoning.join(""), normalText: rest.join("") + text.slice(at) };
  },
  // Thoughts and content alternate.
  startSplitting: () => silentStep,
};

/** Splits off a thought. Calls inside it go to the rest, an unfinished call with all text after it. */
function splitThought(text: string): ReasoningSplit {
  const reasoning: string[] = [];
  const rest: string[] = [];
  let at = 0;
  for (let start = text.indexOf(opening); start !== -1; start = text.indexOf(opening, at)) {
    reasoning.push(text.slice(at, start));
    const end = text.indexOf(closing, start);
    at = end === -1 ? text.length : end + closing.length;
    rest.push(text.slice(start, at));
  }
  return { reasoning: reasoning.join("") + text.slice(at), normalText: rest.join("") };
}
