// Tool calls of Kimi K2: an id that names the tool, then arguments in braces, unchecked. Names are
// not checked against the tools either. If an id is only a counter, the tool whose parameters fit
// the arguments best is called.

import { parseJson } from "../../python-semantics/json/index.ts";
import { pythonInt, space, spaced, unlessRaised, verbatim, wordCharacters } from "../../python-semantics/index.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import { schemaProperties, declaredParameters, type ToolCallScan } from "../tool-call-scan.ts";

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
  const id = `([^${space.slice(1, -1)}<|]+)`;
  const header = new RegExp(spaced(verbatim(opening), id, verbatim(argumentsMarker), "(?=\\{)"), "gu");
  const ends = argumentEnds(text);
  let reached = 0;
  let count = 0;
  for (let match = header.exec(text); match !== null; match = header.exec(text)) {
    const brace = header.lastIndex;
    while (reached < ends.length && ends[reached]!.brace <= brace) reached++;
    const end = ends[reached];
    if (end === undefined) break;
    const parameters = text.slice(brace, end.brace + 1);
    const name = toolName(match[1]!, parameters, scan);
    if (name === null) {
      scan.report("no-name", text.slice(match.index, end.end), `The id of the call, "${match[1]!}", names no tool.`);
    } else {
      scan.reportUnknown(name, match[0]);
      scan.add([{ name, parameters, toolIndex: count++ }]);
    }
    header.lastIndex = end.end;
  }
  const lastOpening = text.lastIndexOf(opening);
  if (lastOpening > text.lastIndexOf(closing)) {
    scan.report("unterminated-call", text.slice(lastOpening), `The call does not end with ${closing}.`);
  }
}

/** Positions of closing braces followed by an end marker, with only white space between them. */
function argumentEnds(text: string): { readonly brace: number; readonly end: number }[] {
  const pattern = new RegExp(`\\}(?=${spaced("", verbatim(closing))})`, "gu");
  return Array.from(text.matchAll(pattern), ({ index }) => ({
    brace: index,
    end: text.indexOf(closing, index) + closing.length,
  }));
}

const namingId = new RegExp(`^(?:functions\\.)?([${wordCharacters}.-]+):(\\p{Nd}+)$`, "u");

/**
 * The tool that an id denotes; `null` if none. Counters that Python cannot read as an integer
 * raise.
 */
function toolName(id: string, parameters: string, scan: ToolCallScan): string | null {
  const named = namingId.exec(id);
  if (named !== null) {
    pythonInt(named[2]!);
    return named[1]!;
  }
  if (!/^\p{Nd}+$/u.test(id)) return null;
  pythonInt(id);
  return inferTool(parameters, scan);
}

/**
 * The only tool; among several, the first of those that declare the most arguments and leave the
 * fewest undeclared.
 */
function inferTool(parameters: string, { tools }: ToolCallScan): string | null {
  if (tools.length === 1) return tools[0]!.name;
  const given = tools.length === 0 ? undefined : unlessRaised(["JSONDecodeError"], () => parseJson(parameters));
  if (!(given instanceof Map)) return null;
  let best: string | null = null;
  let bestScore = -1;
  for (const tool of tools) {
    const declared = schemaProperties(declaredParameters(tool));
    if (declared.size === 0) continue;
    const overlap = Array.from(given.keys()).filter((key) => declared.has(key)).length;
    const score = overlap - (given.size - overlap);
    if (score <= bestScore) continue;
    bestScore = score;
    best = tool.name;
  }
  return best;
}
