// Golden suite `parsers`: vectors made by SGLang's own detectors, one file per tool-call parser,
// and `reasoning.jsonl`.

import { readdir } from "node:fs/promises";
import { join } from "node:path";

import { toolFromDefinition } from "#src/core/index.ts";
import type { JsonObject, JsonValue } from "#src/python-semantics/json/index.ts";
import {
  reasoningParser,
  reasoningParserNames,
  type ToolCallParser,
  toolCallParser,
  toolCallParserNames,
} from "#src/parsers/index.ts";
import { GoldenTally, readGoldenFile, textOf } from "./golden-file.ts";
import type { GoldenFileReport, GoldenSuite } from "./suite.ts";

export const parsersSuite: GoldenSuite = {
  name: "parsers",
  run: async function* (folder) {
    const files = (await readdir(folder)).filter((file) => file.endsWith(".jsonl")).sort();
    for (const file of files) yield await playFile(folder, file);
  },
};

async function playFile(folder: string, file: string): Promise<GoldenFileReport> {
  const tally = new GoldenTally(file);
  for (const record of await readGoldenFile(join(folder, file))) {
    const tools = textOf(record, "parser");
    const reasoning = textOf(record, "reasoning_parser");
    if (tools !== null) playToolCalls(record, tools, tally);
    else if (reasoning !== null) playReasoning(record, reasoning, tally);
    else tally.unsupported('the record names no "parser" and no "reasoning_parser"');
  }
  return tally.report();
}

function playToolCalls(record: JsonObject, name: string, tally: GoldenTally): void {
  if (!toolCallParserNames.includes(name)) {
    tally.unsupported(`no tool-call parser "${name}" yet`);
    return;
  }
  const expected: JsonObject = new Map([
    ["expected", record.get("expected") ?? null],
    ["has_tool_call", record.get("has_tool_call") ?? null],
    ["detector_normal_text", record.get("detector_normal_text") ?? null],
  ]);
  tally.compare(record, expected, () => playParser(toolCallParser(name), record));
}

function playParser(parser: ToolCallParser, record: JsonObject): JsonValue {
  const definitions = record.get("tools");
  const tools = (Array.isArray(definitions) ? definitions : []).map((tool) => toolFromDefinition(asObject(tool)));
  const text = textOf(record, "text") ?? "";
  const parse = parser.parse(text, { tools });
  const calls = parse.calls.map(
    (call): JsonValue =>
      new Map<string, JsonValue>([
        ["name", call.name],
        ["parameters", call.parameters],
        ["tool_index", call.toolIndex],
      ]),
  );
  const result: JsonObject =
    parse.raised === null
      ? new Map<string, JsonValue>([
          ["normal_text", parse.normalText],
          ["calls", calls],
        ])
      : new Map([["error", parse.raised]]);
  return new Map<string, JsonValue>([
    ["expected", result],
    ["has_tool_call", parser.hasToolCall(text)],
    ["detector_normal_text", parse.detectorNormalText],
  ]);
}

function playReasoning(record: JsonObject, name: string, tally: GoldenTally): void {
  if (!reasoningParserNames.includes(name)) {
    tally.unsupported(`no reasoning parser "${name}" yet`);
    return;
  }
  tally.compare(record, record.get("expected") ?? null, () => {
    const forceReasoning = asObject(record.get("options") ?? new Map()).get("force_reasoning") === true;
    const split = reasoningParser(name).split(textOf(record, "text") ?? "", { forceReasoning });
    return new Map([
      ["reasoning_text", split.reasoning],
      ["normal_text", split.normalText],
    ]);
  });
}

function asObject(value: JsonValue): JsonObject {
  if (value instanceof Map) return value;
  throw new Error("Cannot run the record: a JSON object is wanted where it has none.");
}
