// Tool calls of Qwen2.5 and Qwen3: one JSON object between tags that stand on lines of their own. The newlines belong to
// the tags for SGLang, so a call written on one line is plain text to it; here that is reported as a problem. Also `qwen`.

import { pythonLstrip, pythonRstrip, pythonStrip } from "../../python-semantics/index.ts";
import { formatHints } from "../format-hints.ts";
import { blocksBetween } from "../text-blocks.ts";
import { createToolCallParser, type ToolCallFormat } from "../tool-call-parser.ts";
import { guessName, type ToolCallScan } from "../tool-call-scan.ts";

const openingTag = "<tool_call>";
const closingTag = "</tool_call>";
const opening = `${openingTag}\n`;

export const qwen25Format: ToolCallFormat = {
  name: "qwen25",
  markers: [openingTag, closingTag],
  hints: formatHints({
    wordsEnd: [opening],
    callEnds: [`\n${closingTag}`],
    nesting: [[openingTag, `\n${closingTag}`]],
    straighten: onOwnLines,
  }),
  hasToolCall: (text) => text.includes(opening),
  detect: (text, scan) => {
    let rest = 0;
    for (const block of blocksBetween(text, opening, `\n${closingTag}`)) {
      reportStrayTags(text.slice(rest, block.start), scan);
      const body = pythonStrip(block.body);
      const value = scan.tryJson(body);
      if (value !== undefined) scan.add(scan.callsIn(value, body));
      rest = block.end;
    }
    reportStrayTags(text.slice(rest), scan);
    const first = text.indexOf(opening);
    return first === -1 ? text : pythonStrip(text.slice(0, first));
  },
};

export const qwen25 = createToolCallParser(qwen25Format);

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

/** The tags each on a line of its own, as they belong. */
function onOwnLines(text: string): string {
  const opened = text.split(openingTag);
  const behind = opened.map((part, index) => (index === 0 ? part : `\n${pythonLstrip(part)}`)).join(openingTag);
  const closed = behind.split(closingTag);
  return closed.map((part, index) => (index === closed.length - 1 ? part : `${pythonRstrip(part)}\n`)).join(closingTag);
}
