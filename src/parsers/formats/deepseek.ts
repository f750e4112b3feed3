// Tool calls of DeepSeek V3 (a fenced JSON block after the name) and V3.1 (bare JSON). The end of the section is not needed,
// the end of each call is; one bad call spoils all.

import { PythonError, pythonStrip } from "../../python-semantics/index.ts";
import { formatHints } from "../format-hints.ts";
import { blocksBetween } from "../text-blocks.ts";
import { createToolCallParser, type ToolCallParser } from "../tool-call-parser.ts";

const section = "<｜tool▁calls▁begin｜>";
const opening = "<｜tool▁call▁begin｜>";
const closing = "<｜tool▁call▁end｜>";
const separator = "<｜tool▁sep｜>";
const fence = "\n```json\n";
const fenceEnd = "\n```";

type Parts = { readonly name: string; readonly json: string };

function createDeepseekParser(name: string, split: (call: string) => Parts | null): ToolCallParser {
  return createToolCallParser({
    name,
    markers: [section, "<｜tool▁calls▁end｜>", opening, closing, separator],
    hints: formatHints({
      wordsEnd: [section],
      callEnds: [closing],
      nesting:
        name === "deepseekv3"
          ? [
              [opening, closing],
              [fence, fenceEnd],
            ]
          : [[opening, closing]],
    }),
    hasToolCall: (text) => text.includes(section),
    detect: (text, scan) => {
      const first = text.indexOf(section);
      if (first === -1) return text;
      return scan.allOrNothing(text, () => {
        let rest = first;
        for (const { body, end } of blocksBetween(text, opening, closing)) {
          rest = end;
          const parts = split(body);
          if (parts === null) {
            scan.report("unterminated-call", body, "The call has no name or no arguments where they belong.");
            throw new PythonError("AttributeError", "a call without its parts");
          }
          const parameters = scan.readJson(parts.json);
          scan.add(scan.callsIn(new Map([["name", parts.name], ["parameters", parameters]]), body)); // prettier-ignore
        }
        const unclosed = text.indexOf(opening, rest);
        if (unclosed !== -1) {
          scan.report("unterminated-call", text.slice(unclosed), `The call does not end with ${closing}.`);
        }
        return pythonStrip(text.slice(0, first));
      });
    },
  });
}

/** The type before the separator is not looked at. */
export const deepseekv3 = createDeepseekParser("deepseekv3", (call) => {
  if (!call.endsWith(fenceEnd)) return null;
  const end = call.length - fenceEnd.length;
  const fenceStart = end < fence.length ? -1 : call.lastIndexOf(fence, end - fence.length);
  if (fenceStart < separator.length) return null;
  const separatorStart = call.lastIndexOf(separator, fenceStart - separator.length);
  if (separatorStart === -1) return null;
  return {
    name: call.slice(separatorStart + separator.length, fenceStart),
    json: call.slice(fenceStart + fence.length, end),
  };
});

export const deepseekv31 = createDeepseekParser("deepseekv31", (call) => {
  const start = call.lastIndexOf(separator);
  return start === -1 ? null : { name: call.slice(0, start), json: call.slice(start + separator.length) };
});
