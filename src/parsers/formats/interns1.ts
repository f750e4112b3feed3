// Tool calls of InternLM and Intern-S1: JSON between action markers, arguments under "parameters" if that key is there, else
// under "arguments". What is not JSON is skipped; anything odder spoils all.

import { dumpJson } from "../../python-semantics/json/index.ts";
import { isTruthy, PythonError, pythonStrip, pythonTypeName } from "../../python-semantics/index.ts";
import { formatHints } from "../format-hints.ts";
import { blocksBetween } from "../text-blocks.ts";
import { createToolCallParser } from "../tool-call-parser.ts";

const opening = "<|action_start|> <|plugin|>";
const closing = "<|action_end|>";

export const interns1 = createToolCallParser({
  name: "interns1",
  markers: ["<|action_start|>", "<|plugin|>", closing],
  hints: formatHints({ wordsEnd: [opening], callEnds: [closing], nesting: [[opening, closing]] }),
  hasToolCall: (text) => text.includes(opening),
  detect: (text, scan) => {
    const first = text.indexOf(opening);
    if (first === -1) return text;
    const blocks = [...blocksBetween(text, opening, closing)];
    const unclosed = text.indexOf(opening, blocks.at(-1)?.end ?? 0);
    if (unclosed !== -1)
      scan.report("unterminated-call", text.slice(unclosed), `The call does not end with ${closing}.`);
    if (blocks.length === 0) return text;
    return scan.allOrNothing(text, () => {
      for (const { body } of blocks) {
        const call = scan.tryJson(pythonStrip(body));
        if (call === undefined) continue;
        if (!(call instanceof Map)) {
          scan.report("not-an-object", body, "A call must be a JSON object.");
          throw new PythonError("AttributeError", `a call that is a Python ${pythonTypeName(call)}`);
        }
        const given = (call.has("parameters") ? call.get("parameters") : call.get("arguments")) ?? null;
        const name = call.get("name") ?? null;
        if (!scan.isCallable(name, body)) continue;
        if (typeof name !== "string" || !scan.table.indices.has(name))
          throw new PythonError("KeyError", "unknown tool");
        scan.add([scan.call(name, isTruthy(given) ? dumpJson(given) : "{}")]);
      }
      return pythonStrip(text.slice(0, first));
    });
  },
});
