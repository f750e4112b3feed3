// Tool calls of gpt-oss: commentary blocks in Harmony that name a function and end with `<|call|>`.
// Calls are numbered; calls are searched for only if the reply spells out an assistant turn.

import { dumpJson, type JsonValue } from "../../python-semantics/json/index.ts";
import { pythonStrip, spaced, verbatim } from "../../python-semantics/index.ts";
import { harmonyMarkers, readHarmony } from "../harmony.ts";
import { type ReasoningParser, silentStep } from "../reasoning-parser.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import type { DetectedCall, ToolCallScan } from "../tool-call-scan.ts";

const opening = "<|start|>assistant<|channel|>commentary";
const ending = "<|call|>";
/** A function, optionally with a namespace, and the only type of arguments that is read. */
const header = new RegExp(spaced("to=([A-Za-z_][\\w.-]*)", verbatim("<|constrain|>json<|message|>")), "u");

export const gptOss = createToolCallParser({
  name: "gpt-oss",
  markers: harmonyMarkers,
  hints: { contentEnd: ["<|"], nesting: { "<|channel|>commentary to=": ending } },
  opening,
  signs: ["to=functions.", ending],
  detect: (text, scan) => {
    const normal: string[] = [];
    let count = 0;
    for (const event of readHarmony(text)) {
      if (event.type === "normal") normal.push(event.content);
      if (event.type === "tool-call") {
        const calls = readCall(event.raw, count, scan);
        count += calls.length;
        scan.add(calls);
      }
    }
    return pythonStrip(normal.join(" "));
  },
});

function readCall(block: string, index: number, scan: ToolCallScan): readonly DetectedCall[] {
  const match = header.exec(block);
  const start = match === null ? -1 : match.index + match[0].length;
  const end = match === null ? -1 : block.indexOf(ending, start);
  if (match === null || end === -1) {
    scan.report("unterminated-call", block, "A call must name its function and say <|constrain|>json.");
    return [];
  }
  const name = match[1]!.split(".").at(-1)!;
  if (!scan.isCallable(name, block)) return [];
  const source = block.slice(start, end);
  const value: JsonValue | undefined = pythonStrip(source) === "" ? new Map() : scan.tryJson(source);
  return value === undefined ? [] : [scan.call(name, dumpJson(value), index)];
}

export const gptOssReasoning: ReasoningParser = {
  name: "gpt-oss",
  markers: harmonyMarkers,
  hasTags: false,
  // The type of a block is known only at its end.
  startSplitting: () => silentStep,
  split: (text) => {
    const events = readHarmony(text);
    const join = (pieces: readonly string[]): string => pieces.join("");
    return {
      reasoning: join(events.filter(({ type }) => type === "reasoning").map(({ content }) => content)),
      // Calls keep their markers, because the tool-call parser reads them next.
      normalText: join(
        events.flatMap(({ type, content, raw }) => (type === "reasoning" ? [] : type === "tool-call" ? raw : content)),
      ),
    };
  },
};
