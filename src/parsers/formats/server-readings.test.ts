// Inputs from field reports, with the readings of SGLang 0.5.23.

import { expect, test } from "vitest";

import { toolFromDefinition } from "../../core/index.ts";
import { fromPlain, type JsonObject } from "../../python-semantics/json/index.ts";
import { toolCallParser } from "../index.ts";

const toolNamed = (name: string, properties: object) =>
  toolFromDefinition(
    fromPlain({ type: "function", function: { name, parameters: { type: "object", properties } } }) as JsonObject,
  );
const tools = [
  toolNamed("my-tool", { city: { type: "string" }, from: { type: "integer" } }),
  toolNamed("search", {
    query: { type: "string" },
    count: { anyOf: [{ type: "integer" }, { type: "null" }] },
    text: { type: ["string", "null"] },
    list: { type: "array" },
  }),
  toolNamed("Calendar.create", { title: { type: "string" } }),
];
const read = (parser: string, text: string) =>
  toolCallParser(parser)
    .parse(text, { tools })
    .calls.map(({ name, parameters }) => [name, parameters]);

const kimi = (id: string, json: string): string =>
  `<|tool_calls_section_begin|><|tool_call_begin|>${id}<|tool_call_argument_begin|>${json}<|tool_call_end|><|tool_calls_section_end|>`;
const glm = (key: string, value: string, line = ""): string =>
  `<tool_call>search${line}<arg_key>${key}</arg_key>${line}<arg_value>${value}</arg_value>${line}</tool_call>`;
const coder = (key: string, value: string): string =>
  `<tool_call>\n<function=search>\n<parameter=${key}>\n${value}\n</parameter>\n</function>\n</tool_call>`;
const lfm = (source: string): string => `<|tool_call_start|>[${source}]<|tool_call_end|>`;

test.each([
  ["kimi_k2", kimi("functions.my-tool:0", '{"city": "Rome"}'), [["my-tool", '{"city": "Rome"}']]],
  ["kimi_k2", kimi("3", '{"query": "a", "count": 1}'), [["search", '{"query": "a", "count": 1}']]],
  ["kimi_k2", kimi("3", '{"nothing": "a"}'), []],
  ["glm47", glm("query", "null"), [["search", '{"query": "null"}']]],
  ["glm47", glm("query", "1.50"), [["search", '{"query": "1.50"}']]],
  ["glm47", glm("text", "null"), [["search", '{"text": null}']]],
  ["glm47", glm("query", " a\n"), [["search", '{"query": " a\\n"}']]],
  ["glm45", glm("query", " a\n", "\n"), [["search", '{"query": " a\\n"}']]],
  ["qwen3_coder", coder("count", "42"), [["search", '{"count": 42}']]],
  ["qwen3_coder", coder("text", "5"), [["search", '{"text": "5"}']]],
  ["deepseekv32", '<｜DSML｜function_calls><｜DSML｜invoke name="search">{"query": "a</｜DSML｜invoke></｜DSML｜function_calls>', []],
  ["deepseekv4", '<｜DSML｜invoke name="search">{"query": "a"}</｜DSML｜invoke>', [["search", '{"query": "a"}']]],
  ["deepseekv4", '<｜DSML｜function_calls><｜DSML｜invoke name="search"/></｜DSML｜function_calls>', [["search", "{}"]]],
  ["mistral", '[TOOL_CALLS]search[ARGS]{}[TOOL_CALLS]my-tool[ARGS]{"city": "x"}', [["search", "{}"], ["my-tool", '{"city": "x"}']]],
  ["lfm2", lfm("Calendar.create(title='a\nb')"), [["Calendar.create", '{"title": "a\\nb"}']]],
  ["lfm2", lfm("search(count=null, list=[true, +1])"), [["search", '{"count": null, "list": [true, 1]}']]],
  ["lfm2", lfm("search(from=07)"), [["search", '{"from": 7}']]],
  ["lfm2", lfm("search(query='sed -n '3,4p' f')"), [["search", '{"query": "sed -n \'3,4p\' f"}']]],
  ["lfm2", lfm("search(query='a'), search(query=')"), [["search", '{"query": "a"}']]],
  ["lfm2", lfm("search('a')"), []],
])("%s reads %j", (parser, text, calls) => {
  expect(read(parser, text)).toEqual(calls);
  if (calls.length === 0) expect(toolCallParser(parser).parse(text, { tools })).toMatchObject({ content: text, problems: [{}] });
}); // prettier-ignore

test("minimax-m3 reads tags that no schema declares, and calls where no tools are declared", () => {
  const tag = "]<]minimax[>[";
  const leaf = (name: string, text: string): string => `${tag}<${name}>${text}${tag}</${name}>`;
  const call = (inside: string): string =>
    `${tag}<tool_call>${tag}<invoke name="search">${inside}${tag}</invoke>${tag}</tool_call>`;
  const parser = toolCallParser("minimax-m3");
  const body = leaf("either", leaf("item", "1") + leaf("item", "true"));
  expect(parser.parse(call(body), { tools }).calls[0]?.parameters).toBe('{"either": ["1", true]}');
  expect(parser.parse(call(body), { tools: [] }).calls).toEqual([
    { name: "search", parameters: '{"either": ["1", true]}', toolIndex: 0 },
  ]);
});
