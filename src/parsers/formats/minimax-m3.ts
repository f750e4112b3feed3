// Tool calls of MiniMax M3: every tag carries a prefix, parameters are tags named after themselves, and tags nest for objects
// and lists. One tag out of place spoils all.

import type { JsonValue } from "../../python-semantics/json/index.ts";
import { isList, PythonError, unlessRaised } from "../../python-semantics/index.ts";
import { formatHints } from "../format-hints.ts";
import { blocksBetween } from "../text-blocks.ts";
import { createToolCallParser } from "../tool-call-parser.ts";
import type { ToolCallScan } from "../tool-call-scan.ts";
import type { ToolTable } from "../tool-table.ts";
import { readMinimaxTree, tagPrefix } from "./minimax-tree.ts";

const opening = `${tagPrefix}<tool_call>`;
const closing = `${tagPrefix}</tool_call>`;
const invokeOpening = `${tagPrefix}<invoke name="`;
const invokeClosing = `${tagPrefix}</invoke>`;

export const minimaxM3 = createToolCallParser({
  name: "minimax-m3",
  markers: [tagPrefix],
  hints: formatHints({
    wordsEnd: [tagPrefix],
    callEnds: [closing],
    nesting: [
      [opening, closing],
      [invokeOpening, invokeClosing],
    ],
  }),
  hasToolCall: (text) => withoutTagSpace(text).includes(opening),
  detect: (original, scan) =>
    scan.allOrNothing(original, () => {
      const text = withoutTagSpace(original);
      let normalText = "";
      let rest = 0;
      for (const { start, body, end } of blocksBetween(text, opening, closing)) {
        normalText += text.slice(rest, start);
        rest = end;
        readBlock(body, scan);
      }
      const unclosed = text.indexOf(opening, rest);
      if (unclosed !== -1) scan.report("unterminated-call", text.slice(unclosed), "The calls do not end.");
      return normalText + text.slice(rest);
    }),
});

/** White space between the prefix and its tag does not count. */
function withoutTagSpace(text: string): string {
  return text.split(tagPrefix).map((piece, index) => (index === 0 ? piece : piece.replace(/^[ \t\r\n]+(?=<)/, ""))).join(tagPrefix); // prettier-ignore
}

function readBlock(block: string, scan: ToolCallScan): void {
  let count = 0;
  for (const { body: invoke } of blocksBetween(block, invokeOpening, invokeClosing)) {
    const nameEnd = invoke.indexOf('">');
    if (nameEnd === -1) {
      scan.report("unterminated-call", invoke, "The name of the tool does not end.");
      continue;
    }
    const name = invoke.slice(0, nameEnd);
    const toolArguments = readMinimaxTree(invoke.slice(nameEnd + 2), parametersOf(name, scan.table));
    // What cannot be written as JSON is no call, and spoils no other.
    const calls = unlessRaised(null, () => {
      if (!isList(toolArguments) && !(toolArguments instanceof Map))
        throw new PythonError("TypeError", "arguments are no container");
      return scan.named(name, toolArguments, invoke);
    });
    for (const call of calls ?? []) scan.add([{ ...call, toolIndex: count++ }]);
  }
}

function parametersOf(name: string, table: ToolTable): JsonValue {
  const body = table.tools.find((tool) => tool.name === name)?.definition.get("function");
  return body instanceof Map ? (body.get("parameters") ?? null) : null;
}
