import { expect, test } from "vitest";

import { ConfigurationError } from "../core/index.ts";
import { reasoningParser, toolCallParser } from "./index.ts";

test("reasoning is split at the first closing tag, white space stays, and only leading opening tags are dropped", () => {
  const parser = reasoningParser("qwen3");
  expect(parser.split("<think>\na\n</think>\n\nb</think>c")).toEqual({
    reasoning: "\na\n",
    normalText: "\n\nb</think>c",
  });
  expect(parser.split("<think><think>a</think>b")).toEqual({ reasoning: "a", normalText: "b" });
  expect(parser.split("x <think>late</think> y")).toEqual({ reasoning: "x <think>late", normalText: " y" });
});

test("without an opening tag nothing is reasoning, unless it is forced", () => {
  const parser = reasoningParser("qwen3");
  expect(parser.split("a</think> b ")).toEqual({ reasoning: "", normalText: "a</think> b " });
  expect(parser.split("a</think> b ", { forceReasoning: true })).toEqual({ reasoning: "a", normalText: " b " });
  expect(reasoningParser("qwen3-thinking").split(" a ")).toEqual({ reasoning: " a ", normalText: "" });
});

test.each([
  ["qwen3", "<think>Well.\n", "<tool_call>\n{}"],
  ["glm45", "<think>Well.\n", "<tool_call>f</tool_call>"],
  ["deepseek-v3", "<think>Well.\n", "<tool_call>"],
  ["nemotron_3", "<think>Well.\n", "<tool_call>"],
  ["kimi_k2", "<think>Well.\n", "<|tool_calls_section_begin|><|tool_call_begin|>"],
  ["hunyuan", "<think>Well.\n", "<tool_calls>"],
])(
  "%s: a call in reasoning that is never closed ends it; in closed reasoning it is a thought",
  (name, thought, call) => {
    const parser = reasoningParser(name);
    expect(parser.split(thought + call)).toEqual({ reasoning: "Well.\n", normalText: call });
    expect(parser.split(`${thought}${call}</think>Hi`)).toEqual({ reasoning: `Well.\n${call}`, normalText: "Hi" });
  },
);

test.each([
  ["minimax-m3", " </mm:think>Hi", { reasoning: "", normalText: "Hi" }],
  ["granite_thinking_parser", "<think>a\n</think>\n\nb", { reasoning: "a\n", normalText: "b" }],
  ["ling3", "<think>only a thought", { reasoning: "", normalText: "only a thought" }],
  ["ling3", "<think>a</think>b", { reasoning: "a", normalText: "b" }],
  ["gemma4", "<|channel>thought\na<channel|>b", { reasoning: "a", normalText: "b" }],
  ["mistral", "[THINK]a[/THINK]b", { reasoning: "a", normalText: "b" }],
  ["nano_v3", "<think>a</think>b", { reasoning: "a", normalText: "b" }],
])("%s reads %j", (name, text, split) => {
  expect(reasoningParser(name).split(text)).toEqual(split);
});

test("an unknown parser name is a configuration error that lists the names", () => {
  expect(() => reasoningParser("gpt-9")).toThrow(ConfigurationError);
  expect(() => reasoningParser("gpt-9")).toThrow("qwen3-thinking");
  expect(() => toolCallParser("gpt-9")).toThrow(ConfigurationError);
  expect(() => toolCallParser("gpt-9")).toThrow("qwen25");
  expect(toolCallParser("qwen")).toBe(toolCallParser("qwen25"));
});
