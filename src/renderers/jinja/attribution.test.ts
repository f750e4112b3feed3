import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, test } from "vitest";

import { sharedFolder } from "../../../tests/conformance/shared-folder.ts";
import { fromPlain } from "../../python-semantics/json/index.ts";
import { type ChatTemplate, ChatTemplateError, type TemplateSegment } from "../chat-template.ts";
import { segmentsText } from "../segments.ts";
import { compileChatTemplate } from "./compile-chat-template.ts";

function render(template: string | ChatTemplate, messages: readonly unknown[], tools: unknown = null) {
  const compiled = typeof template === "string" ? compileChatTemplate(template) : template;
  return compiled({
    messages: messages.map(fromPlain),
    tools: fromPlain(tools),
    addGenerationPrompt: true,
    kwargs: new Map(),
    context: {
      specialTokens: new Map([
        ["bos_token", "<s>"],
        ["eos_token", "</s>"],
      ]),
      now: "2026-01-15T12:00:00",
    },
  });
}

const short = (segments: readonly TemplateSegment[]): string[] =>
  segments.map(({ message, source, text }) => `${source[0]}${message ?? ""}:${text}`);

const messages = [
  { role: "user", content: "Hello" },
  { role: "assistant", content: " Bye " },
];

describe("every piece of a rendering knows where it came from", () => {
  test("the template's words belong to the message whose loop iteration writes them", () => {
    const template = "{{ bos_token }}{% for m in messages %}[{{ m.content }}]{% endfor %}end";
    expect(short(render(template, messages))).toEqual([
      "t:<s>",
      "t0:[",
      "m0:Hello",
      "t0:]",
      "t1:[",
      "m1: Bye ",
      "t1:]",
      "t:end",
    ]);
  });

  test("and, outside of loops, to the message whose words they are written with", () => {
    const template = '{{ "<" + messages[0].content + ">" }}{{ messages[1].content|trim ~ "!" }}{{ "." }}';
    expect(short(render(template, messages))).toEqual(["t0:<", "m0:Hello", "t0:>", "m1:Bye", "t1:!", "t:."]);
  });

  test("words of several messages keep their messages; what stands between them belongs to none", () => {
    const template = '{{ messages|map(attribute="content")|join(" + ") }}';
    expect(short(render(template, messages))).toEqual(["m0:Hello", "t: + ", "m1: Bye "]);
  });

  test.each([
    ["m.content[1:3]", "el"],
    ["m.content.split('l')[0]", "He"],
    ["m.content|replace('ll', '-')", "He", "-", "o"],
    ["m.content|upper", "HELLO"],
    ["m.content.partition('e')[2]", "llo"],
    ["m.content|list|last", "o"],
    ["('%s!' % m.content)", "Hello", "!"],
    ["'{}!'.format(m.content)", "Hello", "!"],
    ["m.content|tojson", '"Hello"'],
    ["m|tojson", '{"role": "user", "content": "Hello"}'],
    ["m", "{'role': 'user', 'content': 'Hello'}"],
  ])("%s stays text of its message", (expression, words, ...rest) => {
    const expected = [words, ...rest].map((text, index) => `${index % 2 === 0 ? "m" : "t"}0:${text}`);
    const shown = short(render(`{% for m in messages[:1] %}{{ ${expression} }}{% endfor %}`, messages));
    expect(shown).toEqual(expected);
  });

  test("words go through variables, namespaces, macros and blocks", () => {
    const template = `{%- macro wrap(x) %}({{ x }}){% endmacro -%}
{%- set ns = namespace(t="") %}{% for m in messages %}{% set ns.t = ns.t + m.content %}{% endfor -%}
{%- set block %}<{{ ns.t }}>{% endset -%}
{{ wrap(block) }}`;
    expect(short(render(template, messages))).toEqual(["t:(<", "m0:Hello", "m1: Bye ", "t:>)"]);
  });

  test("tools are tools, whatever message they are written with", () => {
    const tools = [{ type: "function", function: { name: "f", parameters: { a: 2.5 } } }];
    const template = "{% for t in tools %}* {{ t|tojson }} {{ t.function.name }}\n{% endfor %}";
    expect(short(render(template, messages, tools))).toEqual([
      "t:* ",
      't:{"type": "function", "function": {"name": "f", "parameters": {"a": 2.5}}}',
      "t: ",
      "t:f",
      "t:\n",
    ]);
    expect(render(template, messages, tools).map(({ source }) => source)).toContain("tools");
  });

  test("what cannot be followed is never taken for the template's own words", () => {
    const template = '{{ [messages[0].content, "x"] }}{{ messages|length }}';
    expect(short(render(template, messages))).toEqual(["u:['Hello', 'x']2"]);
  });
});

const models = sharedFolder("models");
const names = models === null ? [] : readdirSync(models).filter((name) => !/goldens|README|tiny/.test(name));

describe.skipIf(models === null)("in published templates (skipped without ../shared/models)", () => {
  test.each(names)("%s: words are those of their message, and only the template writes the template's", (name) => {
    const template = compileChatTemplate(readFileSync(join(models ?? "", name, "chat_template.jinja"), "utf8"));
    const words = ["zqsys", "zquser", "zqanswer", "zqnext"];
    const conversation = ["system", "user", "assistant", "user"].map((role, index) => ({
      role,
      content: words[index],
    }));
    const tools = [{ type: "function", function: { name: "zqtool", description: "zqtool", parameters: parameters() } }];
    let rendered = 0;
    for (const start of [0, 1]) {
      for (const given of [null, tools]) {
        const segments = renderOrNull(template, conversation.slice(start), given);
        if (segments === null) continue;
        rendered++;
        expect(segmentsText(segments)).toContain("zquser");
        for (const { source, message, text } of segments) {
          if (source === "template" || source === "tools") expect(text).not.toMatch(/zqsys|zquser|zqanswer|zqnext/);
          if (source !== "tools") expect(text).not.toContain("zqtool");
          words.slice(start).forEach((word, index) => {
            if (text.includes(word)) expect(message).toBe(index);
          });
        }
      }
    }
    expect(rendered).toBeGreaterThan(0);
  });
});

function renderOrNull(template: ChatTemplate, conversation: readonly unknown[], tools: unknown) {
  try {
    return render(template, conversation, tools);
  } catch (error) {
    if (error instanceof ChatTemplateError) return null;
    throw error;
  }
}

function parameters(): object {
  return { type: "object", properties: { zqtool: { type: "string", description: "zqtool" } }, required: ["zqtool"] };
}
