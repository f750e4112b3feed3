// Readings of vLLM in the formats that only it has: 20 texts for each format, recorded from vLLM's
// own parsers.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { toolFromDefinition } from "../../core/index.ts";
import { fromPlain, type JsonObject } from "../../python-semantics/json/index.ts";
import { reasoningParser, toolCallParser } from "../index.ts";

type Golden = {
  readonly parser: string;
  readonly tools: readonly object[];
  readonly text: string;
  readonly expected: object;
};
const path = join(import.meta.dirname, "../../../tests/goldens/vllm-parsers.jsonl");
const goldens = readFileSync(path, "utf8").trim().split("\n").map((line) => JSON.parse(line) as Golden); // prettier-ignore
const names = [...new Set(goldens.map(({ parser }) => parser))];

test.each(names)("%s reads as vLLM does", (name) => {
  const own = goldens.filter(({ parser }) => parser === name);
  expect(own).toHaveLength(20);
  for (const { text, tools, expected } of own) {
    const given = tools.map((tool) => toolFromDefinition(fromPlain(tool) as JsonObject));
    const { raised, normalText, calls } = toolCallParser(name).parse(text, { tools: given });
    const shown = calls.map((call) => ({ name: call.name, parameters: call.parameters }));
    expect({ text, ...(raised === null ? { normal_text: normalText, calls: shown } : { error: raised }) }).toEqual({
      text,
      ...expected,
    });
  }
});

test("lists in other places than xLAM's are lost with a problem, and other data is not", () => {
  const tools = [toolFromDefinition(fromPlain({ type: "function", function: { name: "f" } }) as JsonObject)];
  const codes = (text: string) =>
    toolCallParser("xlam")
      .parse(text, { tools })
      .problems.map(({ code }) => code);
  expect(codes('[{"name": "f", "arguments": {')).toEqual(["not-json"]);
  expect(codes('```json\n{"name": "f", "arguments": {}}\n```')).toEqual(["not-an-object"]);
  expect(codes('```json\n{"total": 3}\n```')).toEqual([]);
  expect(codes('["a", "b"')).toEqual([]);
});

test("calls of unknown tools are let through, and said to be unknown", () => {
  const parse = toolCallParser("jamba").parse('<tool_calls>[{"name": "sing", "arguments": {}}]</tool_calls>', {
    tools: [],
  });
  expect(parse.calls).toEqual([]);
  const tools = [toolFromDefinition(fromPlain({ type: "function", function: { name: "f" } }) as JsonObject)];
  const known = toolCallParser("jamba").parse('<tool_calls>[{"name": "sing", "arguments": {}}]</tool_calls>', {
    tools,
  });
  expect(known).toMatchObject({ calls: [{ name: "sing", toolIndex: -1 }], problems: [{ code: "unknown-tool" }] });
});

test("Cohere's thought is split off, and the rest is read as if it were still there", () => {
  const parser = reasoningParser("cohere_command3");
  const call = '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {"a": 1}}]<|END_ACTION|>';
  expect(parser.split(`<|START_THINKING|>See <co>it</co: 0:[1]>.<|END_THINKING|>${call}`)).toEqual({
    reasoning: "See it.",
    normalText: call,
  });
  const spoken = "<|START_RESPONSE|>Hello.<|END_RESPONSE|>";
  const normalText = `<|START_THINKING|><|END_THINKING|>${spoken}`;
  expect(parser.split(`<|START_THINKING|> <|END_THINKING|>${spoken}`)).toEqual({ reasoning: "", normalText });
  expect(parser.split(`Well.<|END_THINKING|>${spoken}`, { forceReasoning: true }).reasoning).toBe("Well.");
  expect(parser.split(spoken)).toEqual({ reasoning: "", normalText: spoken });
});

test("Hunyuan's tags are read with the suffix of a checkpoint, and without it they are text", () => {
  const tools = [toolFromDefinition(fromPlain({ type: "function", function: { name: "f" } }) as JsonObject)];
  const text =
    "<tool_calls:6124c78e><tool_call:6124c78e>f<arg_key:6124c78e>a</arg_key:6124c78e>" +
    "<arg_value:6124c78e></tool_call></arg_value:6124c78e></tool_call:6124c78e></tool_calls:6124c78e>";
  const { calls, problems } = toolCallParser("hy_v4").parse(text, { tools });
  expect({ calls, problems }).toEqual({
    calls: [{ name: "f", parameters: '{"a": "</tool_call>"}', toolIndex: 0 }],
    problems: [],
  });
  const unsuffixed = text.replace("</tool_call:6124c78e>", "</tool_call>");
  const { problems: lost } = toolCallParser("hy_v4").parse(unsuffixed, { tools });
  expect(lost.map(({ code }) => code)).toEqual(["unterminated-call"]);
});
