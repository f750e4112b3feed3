// Tool calls of Qwen2.5 and Qwen3: one JSON object between tags that stand on lines of their own. The newlines belong to
// the tags for SGLang, so a call written on one line is plain text to it; here that is reported as a problem. Also `qwen`.

import { pythonStrip } from "../lib/python/index.ts";
import { createToolCallParser } from "./tool-call-parser.ts";
import { guessName, type ToolCallScan } from "./tool-call-scan.ts";

const openingTag = "<tool_call>";
const closingTag = "</tool_call>";
const opening = `${openingTag}\n`;
const closing = `\n${closingTag}`;

export const qwen25 = createToolCallParser({
  name: "qwen25",
  markers: [openingTag, closingTag],
  hasToolCall: (text) => text.includes(opening),
  detect: (text, scan) => {
    const first = text.indexOf(opening);
    let rest = 0;
    for (let start = first; start !== -1; start = text.indexOf(opening, rest)) {
      const bodyStart = start + opening.length;
      const end = text.indexOf(closing, bodyStart);
      reportStrayTags(text.slice(rest, start), scan);
      if (end === -1) {
        rest = start;
        break;
      }
      const body = pythonStrip(text.slice(bodyStart, end));
      const value = scan.readJson(body);
      if (value !== undefined) scan.add(scan.callsIn(value, body));
      rest = end + closing.length;
    }
    reportStrayTags(text.slice(rest), scan);
    return first === -1 ? text : pythonStrip(text.slice(0, first));
  },
});

/** An opening tag outside a complete block: the policy meant a call that nobody will see. */
function reportStrayTags(text: string, scan: ToolCallScan): void {
  const start = text.indexOf(openingTag);
  if (start === -1) return;
  const isClosed = text.includes(closingTag, start);
  const detail = isClosed
    ? `${openingTag} and ${closingTag} must each stand on a line of their own.`
    : `The call does not end with ${closingTag}.`;
  const source = text.slice(start);
  scan.report("unterminated-call", source, detail, guessName(source));
}
