// Tool calls of Hermes: JSON between tags, the last of which need not be closed. One bad block spoils all.

import { pythonStrip } from "../../python-semantics/index.ts";
import { formatHints } from "../format-hints.ts";
import { blocksBetween } from "../text-blocks.ts";
import { createToolCallParser } from "../tool-call-parser.ts";

const opening = "<tool_call>";
const closing = "</tool_call>";

export const hermes = createToolCallParser({
  name: "hermes",
  markers: [opening, closing],
  hints: formatHints({ wordsEnd: [opening], callEnds: [closing], nesting: [[opening, closing]] }),
  hasToolCall: (text) => text.includes(opening),
  detect: (text, scan) => {
    const first = text.indexOf(opening);
    if (first === -1) return text;
    return scan.allOrNothing(text, () => {
      let rest = 0;
      const read = (body: string): void => {
        if (body !== "") scan.add(scan.callsIn(scan.readJson(pythonStrip(body)), body));
      };
      for (const block of blocksBetween(text, opening, closing)) {
        read(block.body);
        rest = block.end;
      }
      const unclosed = text.indexOf(opening, rest);
      if (unclosed !== -1) read(text.slice(unclosed + opening.length));
      return pythonStrip(text.slice(0, first));
    });
  },
});
