// Calls of gpt-oss that no parser reads: each is a format error, at any place in the answer.

import { expect, test } from "vitest";

import { toolFromDefinition } from "../core/index.ts";
import { fromPlain, type JsonObject } from "../python-semantics/json/index.ts";
import { reasoningParser, toolCallParser } from "../parsers/index.ts";
import { createActionReader } from "./action-reader.ts";
import { rendererFamily } from "./families.ts";
import { byteTokenizer } from "./marker-tokenizer.test-helper.ts";

const family = rendererFamily("gpt-oss");
const markers = ["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"];
const tokenizer = await byteTokenizer(markers);
const read = createActionReader({
  tokenizer,
  frame: family.actionFrame,
  parseMode: "tokens" as const,
  toolCallParser: toolCallParser(family.toolCallParser),
  reasoningParser: family.reasoningParser === null ? null : reasoningParser(family.reasoningParser),
  stopTokenIds: ["<|call|>", "<|return|>"].map((marker) => tokenizer.tokenId(marker)!),
});
const tools = [toolFromDefinition(fromPlain({ type: "function", function: { name: "find_order" } }) as JsonObject)];
const parse = (text: string) => read(tokenizer.encode(text), { tools, turn: 0 });

const given = '<|message|>{"order_id": "#W1"}';

test.each([
  ["in the analysis channel", `<|channel|>analysis to=functions.find_order code${given}<|call|>`],
  ["in the analysis channel, as JSON", `<|channel|>analysis to=functions.find_order <|constrain|>json${given}<|call|>`],
  ["named in the role", ` to=functions.find_order<|channel|>commentary <|constrain|>json${given}<|call|>`],
  ["after a thought", `<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=functions.find_order<|channel|>commentary json${given}<|call|>`],
  ["of arguments that are not said to be JSON", `<|channel|>commentary to=functions.find_order${given}<|call|>`],
  ["with the end of an answer", `<|channel|>commentary to=functions.find_order${given}<|return|>`],
])("a call %s", (_what, text) => {
  const { toolCalls, problems } = parse(text);
  expect(toolCalls).toEqual([]);
  expect(problems.map(({ code }) => code)).toEqual(["unterminated-call"]);
}); // prettier-ignore

test("a thought about a call, an answer and an empty answer are no problem", () => {
  const thought = "<|channel|>analysis<|message|>I would call to=functions.find_order here.<|end|>";
  for (const said of ["Hello.", ""]) {
    expect(parse(`<|channel|>final<|message|>${said}<|return|>`)).toMatchObject({ content: said, problems: [] });
  }
  const action = parse(`${thought}<|start|>assistant<|channel|>final<|message|>Hello.<|return|>`);
  expect(action).toMatchObject({ content: "Hello.", problems: [] });
});
