import { readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "vitest";

import { addAllFormats } from "../all-formats.ts";
import { reasoningParser, reasoningParserNames } from "../reasoning-parsers.ts";

addAllFormats();

const forced = { forceReasoning: true };

type Golden = {
  readonly reasoning_parser: string;
  readonly options: { readonly force_reasoning?: boolean };
  readonly text: string;
  readonly expected: { readonly reasoning_text: string; readonly normal_text: string };
};
const path = join(import.meta.dirname, "../../../tests/goldens/vllm-reasoning.jsonl");
const goldens = readFileSync(path, "utf8").trim().split("\n").map((line) => JSON.parse(line) as Golden); // prettier-ignore

test.each([...new Set(goldens.map(({ reasoning_parser: name }) => name))])("%s splits as vLLM does", (name) => {
  const own = goldens.filter(({ reasoning_parser: other }) => other === name);
  expect(own).toHaveLength(20);
  for (const { text, options, expected } of own) {
    const split = reasoningParser(name).split(text, { forceReasoning: options.force_reasoning === true });
    expect({ text, reasoning_text: split.reasoning, normal_text: split.normalText }).toEqual({ text, ...expected });
  }
});

test.each([
  ["holo2", "lost <think>a</think>b</think>c", "a", "b</think>c"],
  ["step5", "a", "a", ""],
  ["step5", "a</think>b <think>c", "c", ""],
  ["ernie45", "a</think>\n<response>\nb</response>\n", "a", "\nb"],
  ["ernie45", "a</think></response>b<response>", "a", "</response>b<response>"],
  ["hy_v4", "<think:x>a</think>b</think:x>c", "a</think>b", "c"],
  ["hunyuan_a13b", "<think>\na\n</think>\n<answer>\nb\n</answer>lost", "a", "b"],
  ["hunyuan_a13b", "lost <think>\na\n</think>\n<answer>\nb", "a", "b"],
  ["hunyuan_a13b", "<think>\na\n</answer>lost", "", "<think>\na"],
  ["granite", "lost Here's my thought process:a Here is my response: b", "a ", " b"],
  ["granite", "Here is my response: a", "", "Here is my response: a"],
  ["minicpmv", "a<think>b<|im_end|></think>c</think>d<think>", "ab", "cd<think>"],
  ["minicpmv", "a<tool_call></think>b", "a", "<tool_call>b"],
  ["olmo3", "<think>a", "", "<think>a"],
  ["olmo3", "a</think>b</think>", "a", "b</think>"],
  ["plamo3", "a<|plamo:tag|>b<|plamo:begin_think:plamo|>c<|plamo:end", "ac", "b"],
])("%s reads %j", (name, text, reasoning, normalText) => {
  expect(reasoningParser(name).split(text)).toEqual({ reasoning, normalText });
});

test("hy_v3 splits only text whose reasoning the prompt opened", () => {
  const parser = reasoningParser("hy_v3");
  expect(parser.split("a</think>b")).toEqual({ reasoning: "", normalText: "a</think>b" });
  expect(parser.split("a</think:x>b", forced)).toEqual({ reasoning: "a", normalText: "b" });
  expect(parser.startSplitting().push("a</think>")).toEqual({ reasoning: "", rest: "a</think>" });
});

test.each([
  ["step5", "<think>a<b</think>c<d", "a<b", "c<d"],
  ["ernie45", "<think>a</think><response>", "a", ""],
  ["minicpmv", "a<think>b</think>c<|im_end|>d", "ab", "cd"],
  ["plamo3", "a<|plamo:begin_think:plamo|>b<|plamo:<|plamo:end_think:plamo|>c", "ab", "c"],
])("%s streams what is certain of %j", (name, text, reasoning, rest) => {
  for (const size of [1, 2, 5, 100]) {
    const step = reasoningParser(name).startSplitting();
    const shown = { reasoning: "", rest: "" };
    for (let at = 0; at < text.length; at += size) {
      const piece = step.push(text.slice(at, at + size));
      shown.reasoning += piece.reasoning;
      shown.rest += piece.rest;
    }
    expect(shown).toEqual({ reasoning, rest });
  }
});

test("a vLLM name of a format that SGLang reads is that format", () => {
  for (const [name, first] of [
    ["deepseek_r1", "deepseek-r1"],
    ["glm47", "glm45"],
    ["openai_gptoss", "gpt-oss"],
    ["minimax_m2_append_think", "minimax-append-think"],
    ["musespark1x", "muse"],
  ] as const) {
    expect(reasoningParserNames).toContain(name);
    expect(reasoningParser(name)).toBe(reasoningParser(first));
  }
});
