import { expect, test } from "vitest";

import { ConfigurationError } from "../core/index.ts";
import { reasoningParser } from "./reasoning-parsers.ts";
import { toolCallParser } from "./tool-call-parsers.ts";

test("reasoning is split at the first closing tag; words before the opening tag count as reasoning", () => {
  const parser = reasoningParser("qwen3");
  expect(parser.split("<think>\na\n</think>\n\nb</think>c")).toEqual({ reasoning: "a\n", normalText: "b</think>c" });
  expect(parser.split("x <think>late</think> y")).toEqual({ reasoning: "x late", normalText: "y" });
});

test("without an opening tag nothing is reasoning, unless it is forced", () => {
  const parser = reasoningParser("qwen3");
  expect(parser.split("a</think> b ")).toEqual({ reasoning: "", normalText: "a</think> b " });
  expect(parser.split("a</think> b ", { forceReasoning: true })).toEqual({ reasoning: "a", normalText: "b" });
  expect(reasoningParser("qwen3-thinking").split(" a ")).toEqual({ reasoning: "a", normalText: "" });
});

test("an unknown parser name is a configuration error that lists the names", () => {
  expect(() => reasoningParser("gpt-9")).toThrow(ConfigurationError);
  expect(() => reasoningParser("gpt-9")).toThrow("qwen3-thinking");
  expect(() => toolCallParser("gpt-9")).toThrow(ConfigurationError);
  expect(() => toolCallParser("gpt-9")).toThrow("qwen25");
  expect(toolCallParser("qwen")).toBe(toolCallParser("qwen25"));
});
