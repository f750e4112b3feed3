// Tool calls of GLM-4.5 and 4.6 (the name ends with a newline, or the two characters `\n`) and of GLM-4.7 (the arguments
// follow at once, and all text outside of calls is kept). Also `glm` for the first.

import { pythonStrip } from "../../python-semantics/index.ts";
import { formatHints } from "../format-hints.ts";
import { blocksBetween } from "../text-blocks.ts";
import { createToolCallParser } from "../tool-call-parser.ts";
import type { ToolCallScan } from "../tool-call-scan.ts";
import { argumentMarkers, readGlmArguments } from "./glm-arguments.ts";

const opening = "<tool_call>";
const closing = "</tool_call>";
const markers = [opening, closing, ...argumentMarkers];
const hints = formatHints({
  wordsEnd: [opening],
  callEnds: [closing],
  nesting: [
    [opening, closing],
    [argumentMarkers[2], argumentMarkers[3]],
  ],
});

export const glm45 = createToolCallParser({
  name: "glm45",
  markers,
  hints,
  hasToolCall: (text) => text.includes(opening),
  detect: (text, scan) => {
    const first = text.indexOf(opening);
    if (first === -1) return text;
    return scan.allOrNothing(text, () => {
      let rest = 0;
      for (const { body, end } of blocksBetween(text, opening, closing)) {
        rest = end;
        const newline = /\\n|\n/.exec(body);
        if (newline === null) {
          scan.report("unterminated-call", body, "A newline must follow the name of the tool.");
          continue;
        }
        const name = body.slice(0, newline.index);
        const toolArguments = readGlmArguments(body.slice(newline.index + newline[0].length), name, scan.table);
        scan.add(scan.named(name, toolArguments, body));
      }
      reportUnclosed(text, rest, scan);
      return pythonStrip(text.slice(0, first));
    });
  },
});

export const glm47 = createToolCallParser({
  name: "glm47",
  markers,
  hints,
  hasToolCall: (text) => text.includes(opening),
  detect: (text, scan) => {
    if (!text.includes(opening)) return text;
    return scan.allOrNothing(text, () => {
      let outside = "";
      let rest = 0;
      for (const { start, body, end } of blocksBetween(text, opening, closing)) {
        outside += text.slice(rest, start);
        rest = end;
        const argumentsStart = body.indexOf(argumentMarkers[0]);
        const name = argumentsStart === -1 ? body : body.slice(0, argumentsStart);
        const toolArguments = argumentsStart === -1 ? "" : body.slice(argumentsStart);
        scan.add(scan.named(name, readGlmArguments(toolArguments, name, scan.table), body));
      }
      reportUnclosed(text, rest, scan);
      return pythonStrip(outside + text.slice(rest));
    });
  },
});

function reportUnclosed(text: string, from: number, scan: ToolCallScan): void {
  const start = text.indexOf(opening, from);
  if (start !== -1) scan.report("unterminated-call", text.slice(start), `The call does not end with ${closing}.`);
}
