// Variables of a chat template: the ones that it reads, and the effect of setting them.

import { describe, expect, test } from "vitest";

import { addAllFormats } from "../parsers/all-formats.ts";
import { ConfigurationError, type Message } from "../core/index.ts";
import { fromPlain, type JsonObject } from "../python-semantics/json/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { auditTemplate } from "./audit/audit-template.ts";
import { chooseRenderer } from "./choose-renderer.ts";
import { compiledTemplate } from "./template-text.ts";
import { wireMessage } from "./renderer-family.ts";

addAllFormats();

const tokenizer = createReadableTokenizer();
const chatMl =
  "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
const chatTemplate = `{% if reasoning_effort %}{{ 'Effort: ' + reasoning_effort + '\n' }}{% endif %}${chatMl}{% if add_generation_prompt and enable_thinking is false %}<think></think>{% endif %}`; // prettier-ignore
const kwargs = (plain: object): JsonObject => fromPlain(plain) as JsonObject;
const question: readonly Message[] = [{ role: "user", content: "hi" }];

describe("templateKwargs", () => {
  test("are given to the template, in prompts and bridges", () => {
    const templateKwargs = kwargs({ reasoning_effort: "high", enable_thinking: false });
    const renderer = chooseRenderer({ tokenizer, chatTemplate, templateKwargs });
    const prompt = "Effort: high\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think></think>";
    expect(renderer.renderPrompt(question, []).text).toBe(prompt);
    expect(renderer.templateKwargs).toEqual(templateKwargs);
    const messages: readonly Message[] = [
      ...question,
      { role: "assistant", content: "yes", reasoning: null, toolCalls: [] },
    ];
    const lastAction = tokenizer.encode("yes<|im_end|>");
    const found = renderer.bridge({ messages, tools: [], lastAction, newMessages: question });
    // The template does not write the closed thought into its history, so the rendering differs.
    expect(found.type).toBe("refused");
  });

  test("must be read by the template", () => {
    const choose = (plain: object) => chooseRenderer({ tokenizer, chatTemplate, templateKwargs: kwargs(plain) });
    expect(() => choose({ clear_thinking: true })).toThrow(ConfigurationError);
    expect(() => choose({ clear_thinking: true })).toThrow(
      /Cannot set "clear_thinking" .* it reads "enable_thinking", "reasoning_effort"\./,
    );
    expect(() => choose({ messages: [] })).toThrow(/Cannot set "messages"/);
  });

  test("and the switch for thinking must agree", () => {
    const choose = (thinking: boolean) =>
      chooseRenderer({ tokenizer, chatTemplate, thinking, templateKwargs: kwargs({ enable_thinking: false }) });
    expect(() => choose(true)).toThrow(/the variable "enable_thinking" is set to another value/);
    expect(choose(false).templateKwargs).toEqual(kwargs({ enable_thinking: false }));
  });

  test("the doctor lists what a template reads, and renders with what is given", () => {
    expect(auditTemplate({ tokenizer, chatTemplate }).renderer?.variables).toEqual([
      "enable_thinking",
      "reasoning_effort",
    ]);
    const { renderer } = auditTemplate({ tokenizer, chatTemplate, templateKwargs: kwargs({ enable_thinking: false }) });
    expect(renderer?.generationPrompt).toBe("<|im_start|>assistant\n<think></think>");
  });
});

test.each([
  ["{{ messages }}{{ tools }}{{ bos_token }}{{ add_generation_prompt }}{{ strftime_now('%d') }}", []],
  ["{% set a = a or 1 %}{{ a }}", ["a"]],
  ["{% if x is defined %}{% set y = x %}{% endif %}{{ y }}", ["x", "y"]],
  ["{% set own = 1 %}{% for m in messages %}{{ own }}{{ loop.index }}{{ m }}{{ other }}{% endfor %}", ["other"]],
  ["{% macro say(text, end='') %}{{ text }}{{ inner }}{% endmacro %}{{ say('a') }}", ["inner"]],
  ["{% set ns = namespace(a=effort) %}{{ ns.a }}{{ range(2) }}", ["effort"]],
])("%s reads %j", (template, variables) => {
  expect(compiledTemplate(template).variables).toEqual(variables);
});

test("structured reasoning is given under both names that templates read", () => {
  const wire = wireMessage({ role: "assistant", content: "", reasoning: "Why.", toolCalls: [] });
  expect([wire.get("reasoning_content"), wire.get("thinking")]).toEqual(["Why.", "Why."]);
});
