// Tool calls of Kimi K2: an id that names the tool, then arguments in braces, unchecked. Names are not checked
// against the tools either, and hold no hyphen.

import { PythonError, pythonInt, spaced, verbatim, wordCharacters } from "../../python-semantics/index.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import type { ToolCallScan } from "../tool-call-scan.ts";

const section = "<|tool_calls_section_begin|>";
const opening = "<|tool_call_begin|>";
const argumentsMarker = "<|tool_call_argument_begin|>";
const closing = "<|tool_call_end|>";

export const kimiK2 = createToolCallParser({
  name: "kimi_k2",
  markers: [section, "<|tool_calls_section_end|>", opening, argumentsMarker, closing],
  hints: { nesting: { [opening]: closing } },
  opening: section,
  isAllOrNothing: true,
  detect: (text, scan, start) => {
    readCalls(text, scan);
    return text.slice(0, start);
  },
});

function readCalls(text: string, scan: ToolCallScan): void {
  const id = `([${wordCharacters}.]+:\\p{Nd}+)`;
  const header = new RegExp(spaced(verbatim(opening), id, verbatim(argumentsMarker), "(?=\\{)"), "gu");
  const ends = argumentEnds(text);
  let reached = 0;
  for (let match = header.exec(text); match !== null; match = header.exec(text)) {
    const brace = header.lastIndex;
    while (reached < ends.length && ends[reached]!.brace <= brace) reached++;
    const end = ends[reached];
    if (end === undefined) break;
    const { name, index } = splitId(match[1]!);
    scan.reportUnknown(name, match[0]);
    scan.add([{ name, parameters: text.slice(brace, end.brace + 1), toolIndex: index }]);
    header.lastIndex = end.end;
  }
  const lastOpening = text.lastIndexOf(opening);
  if (lastOpening > text.lastIndexOf(closing)) {
    scan.report("unterminated-call", text.slice(lastOpening), `The call does not end with ${closing}.`);
  }
}

/** Closing braces that an end marker follows, with white space at most between them. */
function argumentEnds(text: string): { readonly brace: number; readonly end: number }[] {
  const pattern = new RegExp(`\\}(?=${spaced("", verbatim(closing))})`, "gu");
  return Array.from(text.matchAll(pattern), ({ index }) => ({
    brace: index,
    end: text.indexOf(closing, index) + closing.length,
  }));
}

function splitId(id: string): { readonly name: string; readonly index: number } {
  const colon = id.indexOf(":");
  const full = id.slice(0, colon);
  const name = full.startsWith("functions.") && full !== "functions." ? full.slice("functions.".length) : full;
  const index = Number(pythonInt(id.slice(colon + 1)));
  if (!Number.isFinite(index)) throw new PythonError("ValueError", "an index beyond all numbers");
  return { name, index };
}
