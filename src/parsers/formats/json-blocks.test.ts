import fc from "fast-check";
import { expect, test } from "vitest";

import { type Tool, toolFromDefinition } from "../../core/index.ts";
import { fromPlain, type JsonObject } from "../../python-semantics/json/index.ts";
import { qwen25 } from "./json-blocks.ts";

const tools = ["get_order", "cancel_order"].map((name): Tool =>
  toolFromDefinition(fromPlain({ type: "function", function: { name } }) as JsonObject),
);

const parse = (text: string, forwardUnknownTools = false) => qwen25.parse(text, { tools, forwardUnknownTools });
const problemsOf = (text: string) => parse(text).problems.map(({ code, toolName }) => [code, toolName]);
const good = '<tool_call>\n{"name": "get_order", "arguments": {"id": 1.0}}\n</tool_call>';

test("qwen25 reads a call, and the words before it", () => {
  expect(parse(`One moment.\n${good}`)).toEqual({
    normalText: "One moment.",
    content: "One moment.",
    calls: [{ name: "get_order", parameters: '{"id": 1.0}', toolIndex: 0 }],
    raised: null,
    detectorNormalText: "One moment.",
    problems: [],
  });
});

test.each([
  ["plain words", "Hello!", []],
  ["broken JSON", '<tool_call>\n{"name": "get_order", "arguments": {\n</tool_call>', [["not-json", "get_order"]]],
  ["an unknown tool", '<tool_call>\n{"name": "fly", "arguments": {}}\n</tool_call>', [["unknown-tool", "fly"]]],
  ["no name", '<tool_call>\n{"arguments": {}}\n</tool_call>', [["no-name", null]]],
  ["a number", "<tool_call>\n5\n</tool_call>", [["not-an-object", null]]],
  ["a name that is a list", '<tool_call>\n{"name": ["x"]}\n</tool_call>', [["no-name", null]]],
  ["a call cut off", '<tool_call>\n{"name": "get_order", "arg', [["unterminated-call", "get_order"]]],
  ["a call on one line", '<tool_call>{"name": "get_order"}</tool_call>', [["unterminated-call", "get_order"]]],
  ["a good call, then a broken one", `${good}\n<tool_call>\n{\n</tool_call>`, [["not-json", null]]],
  ["a tag on one line before a good call", `<tool_call>{}</tool_call>\n${good}`, [["unterminated-call", null]]],
])("qwen25 reports what SGLang drops in silence: %s", (_case, text, problems) => {
  expect(problemsOf(text)).toEqual(problems);
});

test("qwen25 names the Python exception that serving would swallow, and then gives no call", () => {
  for (const [body, raised] of [
    ["null", "AttributeError"],
    ['["get_order"]', "AttributeError"],
    ['{"name": {"a": 1}}', "TypeError"],
    ["[".repeat(5000), "RecursionError"],
    [`{"name": "get_order", "arguments": {"a": ${"1".repeat(5000)}}}`, "ValueError"],
  ] as const) {
    expect(parse(`${good}\n<tool_call>\n${body}\n</tool_call>`)).toMatchObject({ raised, calls: [] });
  }
});

test("qwen25 lets a name through that is not a string only as the exception it raises when unknown tools are forwarded", () => {
  const text = '<tool_call>\n{"name": 5}\n</tool_call>';
  expect(parse(text)).toMatchObject({ raised: null, calls: [], problems: [{ code: "no-name" }] });
  expect(parse(text, true)).toMatchObject({ raised: "ValidationError", calls: [] });
});

test("qwen25 lets unknown tools through when asked to, nameless ones too", () => {
  const text = '<tool_call>\n[{"name": "fly"}, {"parameters": {"a": 1}}]\n</tool_call>';
  expect(parse(text, true).calls).toEqual([
    { name: "fly", parameters: "{}", toolIndex: -1 },
    { name: null, parameters: '{"a": 1}', toolIndex: -1 },
  ]);
  expect(parse(text).calls).toEqual([]);
});

test("qwen25 looks for no calls when there are no tools", () => {
  expect(qwen25.parse(good, { tools: [] })).toMatchObject({ normalText: good, calls: [] });
});

test("qwen25 never throws, and its strict result does not depend on the problems it reports", () => {
  const piece = fc.constantFrom(
    "<tool_call>", "\n", "</tool_call>", "{", "}", '"name"', ": ", '"get_order"', '"arguments"', ", ", "null", "[", "]", "5", "<think>", "é", "\u2028", "\ud800",
  ); // prettier-ignore
  fc.assert(
    fc.property(fc.array(fc.oneof(piece, fc.string()), { maxLength: 24 }), (pieces) => {
      const text = pieces.join("");
      const { content, calls, raised } = parse(text);
      if (calls.length === 0 || raised !== null) expect(content).toBe(text);
      expect(calls.length === 0 || qwen25.hasToolCall(text)).toBe(true);
    }),
    { seed: 7, numRuns: 2000 },
  );
});
