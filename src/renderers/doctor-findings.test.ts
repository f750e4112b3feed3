// Behaviour of a detected template on calls, results and unfinished answers, and the doctor's
// findings about it.

import { describe, expect, test } from "vitest";

import { addAllFormats } from "../parsers/all-formats.ts";
import { AttributedError, type Message, type Renderer, type Tokenizer } from "../core/index.ts";
import { auditTemplate } from "./audit/audit-template.ts";
import type { TemplateAudit } from "./audit/template-audit.ts";
import { chooseRenderer, rendererFor } from "./choose-renderer.ts";
import { familyFromTemplate } from "./detection/detect-family.ts";
import { byteTokenizer } from "./marker-tokenizer.test-helper.ts";
import { thinkingTemplate } from "./published-templates.test-helper.ts";
import { someTools } from "./random-conversation.test-helper.ts";

addAllFormats();

const markers = [
  ...[
    "<|im_start|>",
    "<|im_end|>",
    "<|close|>",
    "<|end_of_msg|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
  ],
  ...["<|result|>", "<|tool_list_start|>", "<｜DSML｜function_calls>"],
];
const tokenizer: Tokenizer = await byteTokenizer(markers);

const tail = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
const shownTools = "{% if tools %}{{ tools | tojson }}{% endif %}";
const json = `{{ '<tool_call>\n{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments | tojson) + '}\n</tool_call>' }}`;
/** `body` writes one message `m`. */
const template = (body: string): string => `${shownTools}{% for m in messages %}${body}{% endfor %}${tail}`;
const plain = "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}";
const calls = `{% if m.tool_calls %}{{ '<|im_start|>assistant\n' }}{% for c in m.tool_calls %}${json}{% endfor %}{{ '<|im_end|>\n' }}{% else %}${plain}{% endif %}`;
/** Results are written only together with the structured call that they answer. */
const resultsBehindCalls = template(
  `{% if m.role != 'tool' %}${calls}{% if m.tool_calls %}{% for r in messages %}{% if r.role == 'tool' %}{{ '<|im_start|>tool\n' + r.content + '<|im_end|>\n' }}{% endif %}{% endfor %}{% endif %}{% endif %}`,
);
const dropping = template(
  `{% if m.role != 'tool' %}${plain}{% else %}{{ '<|im_start|>tool\n<|im_end|>\n' }}{% endif %}`,
);

const audit = (chatTemplate: string, name: string | null = null): TemplateAudit =>
  auditTemplate({ tokenizer, chatTemplate, renderer: name });
const question: Message = { role: "user", content: "Where is it?" };
const result: Message = { role: "tool", name: "find_order", callId: "call_0_0", content: "It ships today." };
const said = (content: string): Message => ({ role: "assistant", content, reasoning: null, toolCalls: [] });
const call = '<tool_call>\n{"name": "find_order", "arguments": {"order_id": "#W1"}}\n</tool_call>';

describe("messages that a template leaves out", () => {
  test("results that are shown behind structured calls only are given such calls", () => {
    const renderer = chooseRenderer({ tokenizer, chatTemplate: resultsBehindCalls });
    const { text } = renderer.renderPrompt([question, said(call), result], someTools);
    expect(text).toContain("It ships today.");
    expect(text).toContain(call);
    const found = audit(resultsBehindCalls);
    expect(found.problems).toEqual([]);
    expect(found.history.find(({ kind }) => kind === "call, result")).toMatchObject({
      template: "keeps",
      loop: "extends",
    });
  });

  test("results that are never shown are a problem, and refused in a rollout", () => {
    const { problems, history } = audit(dropping);
    expect(problems.some((problem) => /"call, result".*leaves out message 2 \(tool\)/.test(problem))).toBe(true);
    expect(history.find(({ kind }) => kind === "call, result")).toMatchObject({ loop: "fails" });
    const renderer = chooseRenderer({ tokenizer, chatTemplate: dropping, toolCallParser: "qwen25" });
    const shown = [question, said(call), result];
    expect(() => renderer.renderPrompt(shown, [])).toThrow(AttributedError);
    expect(() => renderer.renderPrompt(shown, [])).toThrow(/leaves out message 2 \(tool\)/);
  });

  test("a message of white space is none that is lost, Python's separators included", () => {
    const stripping = template(plain.replace("m.content", "(m.content | trim)"));
    const renderer = chooseRenderer({ tokenizer, chatTemplate: stripping, toolCallParser: "qwen25" });
    for (const content of [" ", "\u0085", "\x1c\x1f", "\u3000\n"]) {
      expect(() => renderer.renderPrompt([{ role: "user", content }], [])).not.toThrow();
    }
  });

  test("a question that is never shown is refused, and one that is written as JSON or trimmed is shown", () => {
    const last = template(`{% if loop.last or m.role != 'user' %}${plain}{% endif %}`);
    const next: Message = { role: "user", content: "And now?" };
    const renderer = chooseRenderer({ tokenizer, chatTemplate: last, toolCallParser: "qwen25" });
    expect(() => renderer.renderPrompt([question, said("Yes."), next], [])).toThrow(/leaves out message 0 \(user\)/);
    for (const filter of ["tojson", "trim", "upper"]) {
      const changed = template(plain.replace("m.content", `(m.content | ${filter})`));
      const other = chooseRenderer({ tokenizer, chatTemplate: changed, toolCallParser: "qwen25" });
      expect(() => other.renderPrompt([{ role: "user", content: ' "a"\nb ' }], [])).not.toThrow();
    }
  });
});

describe("calls of a detected template", () => {
  test("a call in a syntax that no parser reads has no parser, which is a problem", () => {
    const strange = template(`{% if m.tool_calls %}{{ '<|im_start|>assistant\n' }}{% for c in m.tool_calls %}{{ '@@' + c.function.name + (c.function.arguments | tojson) }}{% endfor %}{{ '<|im_end|>\n' }}{% else %}${plain}{% endif %}`); // prettier-ignore
    const { renderer, problems } = audit(strange);
    expect(renderer?.toolCallParser).toEqual({
      name: null,
      because: "none is known that reads the calls of this template",
    });
    expect(problems).toContainEqual(
      expect.stringContaining("No tool-call parser is known for this template. It writes "),
    );
    const made = chooseRenderer({ tokenizer, chatTemplate: strange });
    expect(() => made.renderPrompt([question], someTools)).toThrow(/no parser is known for the call format/);
    expect(() => made.renderPrompt([question], [])).not.toThrow();
  });

  test("a template that shows tools and writes no call is known by its signs, or not at all", () => {
    expect(audit(template(plain)).renderer?.toolCallParser.name).toBeNull();
    const lfm2 = template(plain).replace("{{ tools | tojson }}", "{{ '<|tool_list_start|>' + (tools | tojson) }}");
    expect(audit(lfm2).renderer?.toolCallParser.name).toBe("lfm2");
  });

  test("ids in the form of Kimi's models are tried, too", () => {
    const kimi = `{{ '<|tool_calls_section_begin|><|tool_call_begin|>' + c.id + '<|tool_call_argument_begin|>' + (c.function.arguments | tojson) + '<|tool_call_end|><|tool_calls_section_end|>' }}`;
    const { renderer, problems } = audit(template(calls.replace(json, kimi)));
    expect(renderer?.toolCallParser.name).toBe("kimi_k2");
    expect(problems).toEqual([]);
  });

  test("a template that raises when tools are given is a finding", () => {
    const { renderer, problems } = audit(
      template(plain).replace(shownTools, "{% if tools %}{{ raise_exception('no tools') }}{% endif %}"),
    );
    expect(renderer?.generationPrompt).toBe("<|im_start|>assistant\n");
    expect(problems).toEqual([expect.stringMatching(/^The template raises as soon as tools are given: no tools\./)]);
  });
});

describe("the end of an answer", () => {
  test.each([
    ["two tokens", "<|close|><|end_of_msg|>", "<|end_of_msg|>"],
    ["tokens with blanks between them", "<|close|>\n<|end_of_msg|>\n", "<|end_of_msg|>"],
    ["one token after a line end", "\n<|im_end|>\n", "<|im_end|>"],
    ["one token", "<|im_end|>", "<|im_end|>"],
    ["tokens with text between them", "<|close|>message<|result|><|end_of_msg|>", "<|end_of_msg|>"],
  ])("%s", (_, closing, expected) => {
    const chatTemplate = template(plain.replace("<|im_end|>\n", closing.replaceAll("\n", "\\n")));
    expect(familyFromTemplate({ tokenizer, chatTemplate }).stopTokens).toEqual([expected]);
  });
});

describe("the end of an answer or a call that the template does not always write", () => {
  test("an answer that is closed only once something follows it", () => {
    const chatTemplate = template(plain.replace("+ '<|im_end|>\n'", "+ ('' if loop.last else '<|im_end|>\n')"));
    expect(familyFromTemplate({ tokenizer, chatTemplate })).toMatchObject({
      stopTokens: ["<|im_end|>"],
      endToken: "<|im_end|>",
      closing: "\n",
    });
  });

  test("a token that closes a section of calls ends no action, one that opens results does", () => {
    const section = calls.replace("{% endfor %}{{ '<|im_end|>", "{% endfor %}{{ '<|close|><|im_end|>");
    expect(familyFromTemplate({ tokenizer, chatTemplate: template(section) }).stopTokens).toEqual(["<|im_end|>"]);
    const inOne = calls.replace("{% endfor %}{{ '<|im_end|>\n' }}", "{% endfor %}{{ '<|result|>' }}");
    const results = `{% if m.role == 'tool' %}{{ m.content + '<|im_end|>\n' }}{% else %}${inOne}{% endif %}`;
    expect(familyFromTemplate({ tokenizer, chatTemplate: template(results) }).stopTokens).toEqual([
      "<|im_end|>",
      "<|result|>",
    ]);
  });
});

describe("parsers of a detected template", () => {
  const parserOf = (written: string, more = ""): string | null => {
    const found = audit(template(more + calls.replace(json, written)));
    expect(found.problems).toEqual([]);
    return found.renderer?.toolCallParser.name ?? null;
  };
  const dsml = (section: string): string =>
    `{{ '<｜DSML｜${section}>\n<｜DSML｜invoke name="' + c.function.name + '">\n' }}{% for k, v in c.function.arguments | items %}{{ '<｜DSML｜parameter name="' + k + '" string="true">' + v + '</｜DSML｜parameter>\n' }}{% endfor %}{{ '</｜DSML｜invoke>\n</｜DSML｜${section}>' }}`;
  const argumentKeys =
    "{{ '<tool_call>' + c.function.name + '\n' }}{% for k, v in c.function.arguments | items %}{{ '<arg_key>' + k + '</arg_key>\n<arg_value>' + v + '</arg_value>\n' }}{% endfor %}{{ '</tool_call>' }}";

  test("of several that read a call, the one whose markers are in it, or whose sign is in the template", () => {
    expect(parserOf(dsml("function_calls"))).toBe("deepseekv32");
    expect(parserOf(dsml("tool_calls"))).toBe("deepseekv4");
    expect(parserOf(argumentKeys)).toBe("glm45");
    expect(parserOf(argumentKeys, "{# <|role_end|> #}")).toBe("ling3");
  });

  test("calls whose strings have no quotes are those of the parser that reads their numbers", () => {
    const bare =
      "{{ '[' + c.function.name + '(' }}{% for k, v in c.function.arguments | items %}{{ k + '=' + (v | string) }}{% endfor %}{{ ')]' }}";
    expect(parserOf(bare)).toBe("pythonic");
  });

  test("a template that shows tools without a format takes the one of its vocabulary, where there is one", async () => {
    const withTokens = await byteTokenizer(["<|im_start|>", "<|im_end|>", "<|tool_call_start|>", "<|tool_call_end|>"]);
    const found = auditTemplate({ tokenizer: withTokens, chatTemplate: template(plain) });
    expect(found.renderer?.toolCallParser.name).toBe("lfm2");
  });

  test.each([
    ["gemma4", "<|channel>thought", "<channel|>"],
    ["mistral", "[THINK]", "[/THINK]"],
  ])("reasoning of %s", (name, start, end) => {
    const chatTemplate = template(
      plain.replace("m.content", `(m.content.split('${end}')[-1])`).replace("{{", `{# ${start} #}{{`),
    );
    const found = audit(chatTemplate);
    expect(found.renderer?.reasoningParser).toBe(name);
    expect(found.problems.filter((problem) => problem.startsWith("Thinking"))).toEqual([]);
  });
});

test("ids that the template refuses are written as it takes them", () => {
  const strict = template(
    `{% if m.role == 'tool' and m.tool_call_id | length != 9 %}{{ raise_exception('nine') }}{% endif %}${calls}`,
  );
  expect(audit(strict).problems).toEqual([]);
});

test("values are tried behind a prompt that closes the thinking, which the history leaves out", () => {
  const closing = template(calls).replace("<|im_start|>assistant\n' }}{% endif %}", "<|im_start|>assistant\n<think>\n\n</think>\n\n' }}{% endif %}"); // prettier-ignore
  expect(closing).toContain("</think>");
  expect(audit(closing).values).toMatchObject({ written: 46, lost: [] });
});

describe("an answer that was cut off inside its reasoning", () => {
  const reading = template(`{% set parts = m.content.split('</think>') %}{{ '<|im_start|>' + m.role + '\n' + (parts[0] + '</think>' + parts[1] if parts | length > 1 else m.content) + '<|im_end|>\n' }}`); // prettier-ignore
  const opened = reading.replace(tail, tail.replace("assistant\n", "assistant\n<think>\n"));
  const next: Message = { role: "user", content: "And now?" };
  const bridged = (renderer: Renderer, action: string, message: Message = next): string => {
    const text = action.replace("<|im_end|>", "");
    const closed = text + renderer.unclosedThought!(text);
    const input = {
      messages: [question, said(closed)],
      tools: [],
      lastAction: tokenizer.encode(action),
      newMessages: [message],
    };
    const found = renderer.bridge(input);
    return found.type === "extended" ? tokenizer.decode(found.tokens) : found.reason;
  };

  test.each(["keep-reasoning", "branch"] as const)("is closed before the next message, with %s", (historyPolicy) => {
    const detected = chooseRenderer({ tokenizer, chatTemplate: reading, historyPolicy, toolCallParser: "qwen25" });
    const rest = "<|im_end|>\n<|im_start|>user\nAnd now?<|im_end|>\n<|im_start|>assistant\n";
    expect(bridged(detected, "<think>\nLet me")).toBe(`\n</think>\n\n${rest}`);
    expect(bridged(detected, "<think>\nYes\n</think>\n\nIt is")).toBe(rest);
    expect(bridged(detected, "It is")).toBe(rest);
  });

  test("is closed where it ended by itself, with what was sampled before it", () => {
    const rest = "\n<|im_start|>user\nAnd now?<|im_end|>\n<|im_start|>assistant\n";
    const ended = "<think>\nLet me<|im_end|>";
    const given = { chatTemplate: thinkingTemplate } as const;
    const keeping = rendererFor("qwen3", tokenizer, { ...given, historyPolicy: "keep-reasoning" });
    expect(bridged(keeping, ended)).toBe(`\n</think>\n\n<|im_end|>${rest}`);
    expect(bridged(keeping, "<think>\nYes\n</think>\n\nIt is<|im_end|>")).toBe(rest);
    // A branch begins with the template's own form of the closed thought.
    const branching = rendererFor("qwen3", tokenizer, { ...given, historyPolicy: "branch" });
    expect(bridged(branching, ended)).toContain("rewrites message 1");
    const messages = [question, said(`<think>\nLet me${branching.unclosedThought!("<think>\nLet me")}`), next];
    expect(branching.renderPrompt(messages, []).text).not.toContain("Let me");
  });

  test("is closed before what is said about it, and not where a call has ended it", () => {
    const keeping = rendererFor("qwen3", tokenizer, { chatTemplate: thinkingTemplate });
    const about: Message = { role: "tool", content: "Error: cut off.", name: "unknown", callId: null };
    expect(bridged(keeping, "<think>\nLet me", about)).toMatch(/^\n<\/think>\n\n<\|im_end\|>\n<\|im_start\|>user/);
    const called = '<tool_call>\n{"name": "find_order", "arguments": {}}\n</tool_call>';
    expect(bridged(keeping, `<think>\nLet me\n${called}<|im_end|>`, about)).toMatch(/^\n<\|im_start\|>user/);
  });

  test("is known where the prompt has opened the reasoning", () => {
    const renderer = chooseRenderer({ tokenizer, chatTemplate: opened, toolCallParser: "qwen25" });
    expect(renderer.unclosedThought?.("Let me")).toBe("\n</think>\n\n");
    expect(renderer.unclosedThought?.("Yes\n</think>\n\nIt")).toBe("");
  });
});

test("content that a template writes as parts only is given as parts", () => {
  const parts = template(
    "{{ '<|im_start|>' + m.role + '\n' }}{% for p in m.content %}{{ p.text }}{% endfor %}{{ '<|im_end|>\n' }}",
  );
  const renderer = chooseRenderer({ tokenizer, chatTemplate: parts, toolCallParser: "qwen25" });
  expect(renderer.renderPrompt([question], []).text).toBe(
    "<|im_start|>user\nWhere is it?<|im_end|>\n<|im_start|>assistant\n",
  );
});
