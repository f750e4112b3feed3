import { Template } from "@huggingface/jinja";
import { describe, expect, test } from "vitest";

import type { Message, Tool, ToolCall } from "../core/index.ts";
import { toPlain } from "../python-semantics/json/index.ts";
import { familyOfChatTemplate, rendererFor } from "./index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { bundledChatTemplate, bundledToolSentence } from "./bundled-template.ts";
import { models, publishedRenderer } from "./published-templates.test-helper.ts";
import { bookshopDialogues } from "../tokenizers/dialogues.test-helper.ts";

const renderer = rendererFor("qwen3-instruct-2507", createReadableTokenizer());
const published = publishedRenderer("qwen3-instruct-2507", createReadableTokenizer());
const template = new Template(bundledChatTemplate);

/** A message in the form in which transformers passes it to a template. */
function toWire(message: Message): Record<string, unknown> {
  const calls = message.role === "assistant" ? message.toolCalls : [];
  const wireCalls = calls.map(({ name, argumentsText }) => ({ function: { name, arguments: argumentsText } }));
  return { role: message.role, content: message.content, ...(calls.length > 0 && { tool_calls: wireCalls }) };
}

function expectEqual(messages: readonly Message[], tools: readonly Tool[]): void {
  const input = { messages: messages.map(toWire), tools: tools.map(({ definition }) => toPlain(definition)) };
  const rendered = template.render({ ...input, add_generation_prompt: true });
  expect(rendered).toBe(renderer.renderPrompt(messages, tools).text);
  if (models === null) return;
  const theirs = published.renderPrompt(messages, tools).text;
  expect(withoutSentences(rendered)).toBe(withoutSentences(theirs));
}

/**
 * Removes the text around the tools' definitions, where the bundled template has sentences of its
 * own.
 */
function withoutSentences(text: string): string {
  return text
    .replace(/(# Tools\n\n)[\s\S]*?(<tools>\n)/, "$1$2")
    .replace(/(\n<\/tools>)[\s\S]*?(<\|im_end\|>)/, "$1$2");
}

test("the bundled template is known to belong to the family qwen3-instruct-2507", () => {
  expect(familyOfChatTemplate(bundledChatTemplate)).toBe("qwen3-instruct-2507");
});

test("the bundled template has the sentence in whose place instructions go", () => {
  expect(bundledChatTemplate.split(bundledToolSentence)).toHaveLength(2);
});

describe("the bundled template renders what the family qwen3-instruct-2507 renders, but for its sentences on tools", () => {
  test("for dialogues, with and without tools", async () => {
    for (const { messages, tools } of await bookshopDialogues(14)) {
      for (const length of [1, 2, 3, messages.length]) {
        expectEqual(messages.slice(0, length), tools);
        expectEqual(messages.slice(0, length), []);
      }
    }
  });

  test("for structured calls, several results in a row and no system message", () => {
    const call = (index: number): ToolCall => ({
      id: `call_${index}`,
      name: "look_up",
      argumentsText: '{"id": "#W17"}',
    });
    const assistant = (content: string, count: number): Message => ({
      role: "assistant",
      content,
      reasoning: null,
      toolCalls: Array.from({ length: count }, (_, index) => call(index)),
    });
    const result: Message = { role: "tool", content: "ready", name: "look_up", callId: null };
    const user: Message = { role: "user", content: "Hello" };
    expectEqual(
      [user, assistant("", 2), result, result, assistant("One moment.", 1), result, assistant("Done.", 0)],
      [],
    );
    expectEqual([{ role: "system", content: "Be kind." }, user, { role: "system", content: "Be brief." }], []);
  });
});
