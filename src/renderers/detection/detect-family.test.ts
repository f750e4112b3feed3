import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";

import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";

import { addAllFormats } from "../../parsers/all-formats.ts";
import { ConfigurationError, type Message, type Renderer, type Tokenizer } from "../../core/index.ts";
import { createReadableTokenizer } from "../../tokenizers/index.ts";
import { ChatTemplateError } from "../chat-template.ts";
import { segmentsText } from "../segments.ts";
import { chooseRenderer } from "../choose-renderer.ts";
import { rendererFamily } from "../families.ts";
import { familySamples } from "../family-samples.test-helper.ts";
import { models, publishedRenderer, publishedTemplate, testedFamilies } from "../published-templates.test-helper.ts";
import { byteTokenizer } from "../marker-tokenizer.test-helper.ts";
import {
  conversations,
  play,
  someTools,
  templateSegments,
  testTime,
  words,
} from "../random-conversation.test-helper.ts";
import { createTemplateRenderer, type RendererOptions } from "../template-renderer.ts";
import { familyFromTemplate } from "./detect-family.ts";

addAllFormats();

/** A tokenizer with the markers of a family, and the facts detected from its template. */
async function detected(name: string) {
  const row = rendererFamily(name);
  const specialTokens = row.specialTokens as ReadonlyMap<string, string>;
  const markers = [row.startToken, ...row.stopTokens, ...specialTokens.values(), ...familySamples[name]!.markers];
  const tokenizer = await byteTokenizer(markers);
  const chatTemplate = publishedTemplate(name);
  return { tokenizer, chatTemplate, family: familyFromTemplate({ chatTemplate, tokenizer, specialTokens }) };
}

// gpt-oss closes a last answer with another token than earlier ones, and its calls can only be read
// with the text before them.
const ordinary = testedFamilies.filter((name) => name !== "gpt-oss");

describe.skipIf(models === null)("familyFromTemplate() on known templates (skipped without ../shared/models)", () => {
  test.each(ordinary)("%s: finds the tokens, the parsers and the switch of its row", async (name) => {
    const row = rendererFamily(name);
    const { family } = await detected(name);
    expect(family.endToken).toBe(row.endToken);
    expect(family.closing).toBe(row.closing);
    expect(row.stopTokens).toContain(family.stopTokens[0]);
    expect(family.thinkingVariable).toBe(row.thinkingVariable);
    const hasTags = publishedTemplate(name).includes("</think>");
    expect(family.reasoningParser === null).toBe(row.reasoningParser === null && !hasTags);
  });

  test.each(ordinary)("%s: its parser reads a call of the family", async (name) => {
    const { family, tokenizer, chatTemplate } = await detected(name);
    const renderer = createTemplateRenderer(family, tokenizer, { chatTemplate, now: testTime });
    // If the prompt opens the thinking, a call comes after the closing tag.
    const { text } = renderer.renderPrompt([{ role: "user", content: "hi" }], []);
    const tag = /<([\w:]*think)>\s*$/.exec(text)?.[1];
    const opened = tag === undefined ? "" : `</${tag}>`;
    const action = [...tokenizer.encode(opened + familySamples[name]!.call), renderer.stopTokenIds[0]!];
    const { toolCalls } = renderer.parseAction(Uint32Array.from(action), { tools: someTools, turn: 0 });
    expect(toolCalls.map((found) => found.name)).toEqual(["find_order"]);
  });

  test.each(testedFamilies)(
    "%s: every prompt reads as the template writes it, bridged or not, with thinking on and off",
    async (name) => {
      const { family, tokenizer, chatTemplate } = await detected(name);
      const { call, thought } = familySamples[name]!;
      const generated = conversations(fc.oneof(words, fc.constantFrom(call, thought ?? "Hello!")));
      const switches = family.thinkingVariable === null ? [undefined] : [undefined, true, false];
      let extended = 0;
      for (const thinking of switches) {
        const renderer = createTemplateRenderer(family, tokenizer, {
          chatTemplate,
          now: testTime,
          ...(thinking === undefined ? {} : { thinking }),
        });
        expect(renderer.historyPolicy).toBe("branch");
        const kwargs = new Map(thinking === undefined ? [] : [[family.thinkingVariable!, thinking]]);
        const counting: Renderer = {
          ...renderer,
          bridge: (input) => {
            const result = renderer.bridge(input);
            if (result.type === "extended") extended++;
            else expect(result.reason).toMatch(/ (rewrites|shortens) /);
            return result;
          },
        };
        fc.assert(
          fc.property(generated, (conversation) => {
            untilRefused(() =>
              play(counting, conversation, { tokenizer }, ({ tokens, messages }) => {
                const { tools } = conversation;
                const text = segmentsText(templateSegments(family, messages, { tools, kwargs, chatTemplate }));
                expect(tokenizer.decode(tokens)).toBe(tokenizer.decode(tokenizer.encode(text)));
              }),
            );
          }),
          { seed: 31, numRuns: 10 },
        );
      }
      const isAppendOnly = rendererFamily(name).history === "append-only";
      if (isAppendOnly) expect(extended).toBeGreaterThan(0);
    },
  );
});

describe.skipIf(models === null)(
  "prompt edits and spans of a detected family (skipped without ../shared/models)",
  () => {
    const sentence = "You may call one or more functions to assist with the user query.";
    const promptEdits = [{ replace: sentence, with: "Call one function or none." }];

    test.each(["qwen2.5-instruct", "qwen3", "qwen3-rev2", "qwen3-instruct-2507"])(
      "%s: the text of the template changes as it does for the known family, that of messages never",
      (name) => {
        const tokenizer = createReadableTokenizer();
        const messages: readonly Message[] = [
          { role: "system", content: `Rules. ${sentence}` },
          { role: "user", content: sentence },
        ];
        const chatTemplate = publishedTemplate(name);
        const family = familyFromTemplate({ tokenizer, chatTemplate });
        const prompt = createTemplateRenderer(family, tokenizer, { chatTemplate, promptEdits }).renderPrompt(
          messages,
          someTools,
        );
        const known = chooseRenderer({ tokenizer, chatTemplate, promptEdits });
        expect(prompt.text).toBe(known.renderPrompt(messages, someTools).text);
        expect(prompt.text.split(sentence).length).toBe(3);
        const shown = prompt.spans.map(({ start, end }) => tokenizer.decode(prompt.tokens.subarray(start, end)));
        expect(shown[1]).toBe(`<|im_start|>user\n${sentence}<|im_end|>\n`);
        expect(shown[0]).toContain(`Rules. ${sentence}`);
      },
    );
  },
);

/** Runs until the template refuses a conversation, which it may do. */
function untilRefused(run: () => void): void {
  try {
    run();
  } catch (error) {
    if (!(error instanceof ChatTemplateError)) throw error;
  }
}

describe.skipIf(models === null)(
  "familyFromTemplate() on every template at hand (skipped without ../shared/models)",
  () => {
    const names = (models === null ? [] : readdirSync(models)).filter((name) =>
      existsSync(join(models ?? "", name, "chat_template.jinja")),
    );

    test.each(names)("%s: makes a renderer, whatever the tokenizer marks as special", async (name) => {
      const tokenizer = await byteTokenizer(specialsIn(publishedTemplate(name)));
      const specialTokens = new Map([
        ["eos_token", "</s>"],
        ["bos_token", "<s>"],
      ]);
      const chatTemplate = publishedTemplate(name);
      const family = familyFromTemplate({ chatTemplate, tokenizer, specialTokens });
      const renderer = createTemplateRenderer(family, tokenizer, { chatTemplate, now: testTime });
      expect(renderer.historyPolicy).toBe("branch");
      expect(renderer.stopTokenIds.length).toBeGreaterThan(0);
    });
  },
);

/** Everything that looks like a special token. */
function specialsIn(template: string): string[] {
  return [
    "<s>",
    "</s>",
    ...(template.match(/<[|｜][^<>|｜]+[|｜]>|\[\/?[A-Z_]+\]|<seed:\w+>|\[e~\[|\]~b\]\w+|<\/?tool_calls?>/g) ?? []),
  ];
}

describe.skipIf(models === null)("Mistral's calls and results (skipped without ../shared/models)", () => {
  const name = "mistral-small-3.2";
  // Vitest also runs this function if the tests below are skipped, so only a test reads the folder.
  let tokenizer: Tokenizer;
  beforeAll(async () => ({ tokenizer } = await detected(name)));
  const { call } = familySamples[name]!;
  const choose = (options: RendererOptions = {}): Renderer =>
    publishedRenderer(name, tokenizer, { now: testTime, ...options });
  const question: Message = { role: "user", content: "hi" };
  const bridge = (renderer: Renderer, action: string, newMessages: readonly Message[]): string => {
    const messages: readonly Message[] = [
      question,
      { role: "assistant", content: action, reasoning: null, toolCalls: [] },
    ];
    const lastAction = tokenizer.encode(`${action}</s>`);
    const result = renderer.bridge({ messages, tools: someTools, lastAction, newMessages });
    return result.type === "extended" ? tokenizer.decode(result.tokens) : result.reason;
  };
  const results = [0, 1].map((place): Message => ({
    role: "tool",
    content: `r${place}`,
    name: "f",
    callId: `call_0_${place}`,
  }));

  test("the ids that the model wrote come back with the results, whatever their order", () => {
    const renderer = choose();
    expect([renderer.family, renderer.historyPolicy]).toEqual([name, "keep-reasoning"]);
    const two = call + call.replace("a1B2c3D4e", "zzzzzzzz9");
    const shown =
      "[TOOL_RESULTS]zzzzzzzz9[TOOL_CONTENT]r1[/TOOL_RESULTS][TOOL_RESULTS]a1B2c3D4e[TOOL_CONTENT]r0[/TOOL_RESULTS]";
    expect(bridge(renderer, two, results.toReversed())).toBe(shown);
    // The template refuses ids of another length.
    expect(bridge(renderer, call.replace("a1B2c3D4e", "short"), results.slice(0, 1))).toContain(
      "000000000[TOOL_CONTENT]r0",
    );
  });

  test("a new question moves the tools: the stream leaves them, and a branch follows the template", () => {
    const next: Message = { role: "user", content: "and?" };
    expect(bridge(choose(), "hello", [next])).toBe("[INST]and?[/INST]");
    expect(bridge(choose({ historyPolicy: "branch" }), "hello", [next])).toMatch(/"mistral-small-3.2" rewrites/);
  });
});

describe("familyFromTemplate()", () => {
  const tokenizer = createReadableTokenizer();
  const chatMl =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}" +
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

  test("finds the turns of a template that nobody knows, and bridges where it can be proven", () => {
    const renderer = chooseRenderer({ tokenizer, chatTemplate: chatMl });
    expect(renderer.family).toMatch(/^template-[0-9a-f]{16}$/);
    expect(renderer.stopTokenIds).toEqual([tokenizer.tokenId("<|im_end|>")]);
    const messages: readonly Message[] = [
      { role: "user", content: "hi" },
      { role: "assistant", content: "hello", reasoning: null, toolCalls: [] },
    ];
    const bridge = (action: string): string => {
      const lastAction = tokenizer.encode(action);
      const result = renderer.bridge({
        messages,
        tools: [],
        lastAction,
        newMessages: [{ role: "user", content: "yes" }],
      });
      return result.type === "extended" ? renderer.decode(result.tokens) : result.reason;
    };
    const rest = "\n<|im_start|>user\nyes<|im_end|>\n<|im_start|>assistant\n";
    expect(bridge("hello<|im_end|>")).toBe(rest);
    expect(bridge("hello")).toBe(`<|im_end|>${rest}`);
    expect(bridge("other<|im_end|>")).toMatch(/^the chat template of "template-[0-9a-f]{16}" rewrites message 1$/);
  });

  test("refuses to bridge where the template strips what was sampled", () => {
    const trimming = chatMl.replace("m.content", "(m.content|trim)");
    const renderer = chooseRenderer({ tokenizer, chatTemplate: trimming });
    const bridgeOf = (content: string) =>
      renderer.bridge({
        messages: [
          { role: "user", content: "hi" },
          { role: "assistant", content, reasoning: null, toolCalls: [] },
        ],
        tools: [],
        lastAction: tokenizer.encode(`${content}<|im_end|>`),
        newMessages: [{ role: "user", content: "yes" }],
      }).type;
    expect(bridgeOf("hello")).toBe("extended");
    expect(bridgeOf("hello ")).toBe("refused");
  });

  test("takes parsers, stop tokens and special tokens by name", () => {
    const chatTemplate = `{{ bos_token }}${chatMl}`;
    const specialTokens = new Map([
      ["bos_token", "<|endoftext|>"],
      ["eos_token", "<|endoftext|>"],
    ]);
    const family = familyFromTemplate({
      tokenizer,
      chatTemplate,
      specialTokens,
      toolCallParser: "llama3",
      reasoningParser: "qwen3",
      stopTokens: ["<tool_call>"],
    });
    expect(family.toolCallParser).toBe("llama3");
    expect(family.reasoningParser).toBe("qwen3");
    expect(family.stopTokens).toEqual(["<|im_end|>", "<|endoftext|>", "<tool_call>"]);
    const { text } = chooseRenderer({ tokenizer, chatTemplate, specialTokens }).renderPrompt(
      [{ role: "user", content: "hi" }],
      [],
    );
    expect(text).toBe("<|endoftext|><|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
    expect(() => familyFromTemplate({ tokenizer, chatTemplate, toolCallParser: "gpt-9" })).toThrow(ConfigurationError);
    expect(() => familyFromTemplate({ tokenizer, chatTemplate, reasoningParser: "gpt-9" })).toThrow(ConfigurationError);
  });

  test("reads calls on one line by the parser that most models of this syntax have", () => {
    const calls = `{% for c in m.tool_calls %}{{ '<tool_call>' + (c.function | tojson) + '</tool_call>' }}{% endfor %}`;
    const chatTemplate =
      `{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}` +
      `{% if m.tool_calls %}${calls}{% else %}{{ m.content }}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}` +
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
    expect(familyFromTemplate({ tokenizer, chatTemplate })).toMatchObject({
      toolCallParser: "hermes",
      toolCallBasis: "written",
    });
  });

  test.each([
    ['functools[{ "name": NAME', "phi4_mini_json", "requested"],
    ['<tool_call>{"name": NAME', "qwen25", "requested"],
    ['<tool_calls>[{"name": NAME', "jamba", "requested"],
    ['{"name": NAME', "llama3", "written"],
    ["<tool_call> and functools[", "llama3", "written"],
  ])("reads calls as the prompt requests them: %s", (form, parser, basis) => {
    const calls =
      "{% for c in m.tool_calls %}" +
      `{{ '{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments | tojson) + '}' }}{% endfor %}`;
    const chatTemplate =
      `{% if tools %}{{ 'Answer with: ${form}, "arguments": ...' + (tools | tojson) }}{% endif %}` +
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}" +
      `{% if m.tool_calls %}${calls}{% else %}{{ m.content }}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}` +
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
    const family = familyFromTemplate({ tokenizer, chatTemplate });
    expect(family).toMatchObject({ toolCallParser: parser, toolCallBasis: basis });
  });

  test("takes no parser that would drop the answers of a model", () => {
    const framed = (answer: string) => `${chatMl}{# <|START_THINKING|> <|END_THINKING|> <|START_${answer}|> #}`;
    expect(familyFromTemplate({ tokenizer, chatTemplate: framed("TEXT") }).reasoningParser).toBe("cohere_command4");
    const earlier = familyFromTemplate({ tokenizer, chatTemplate: framed("RESPONSE") });
    expect(earlier.reasoningParser).toBe("cohere_command3");
  });

  test("gives an empty list of tools to a template that cannot do without", () => {
    const looping = `{% for t in tools %}{{ t.function.name }}{% endfor %}${chatMl}`;
    expect(familyFromTemplate({ tokenizer, chatTemplate: looping }).noTools).toEqual([]);
    expect(familyFromTemplate({ tokenizer, chatTemplate: chatMl }).noTools).toBe(null);
  });

  test("knows the switch for thinking by what it changes", () => {
    const withSwitch = `${chatMl}{% if add_generation_prompt and enable_thinking is false %}<think></think>{% endif %}`;
    expect(familyFromTemplate({ tokenizer, chatTemplate: withSwitch }).thinkingVariable).toBe("enable_thinking");
    expect(familyFromTemplate({ tokenizer, chatTemplate: withSwitch }).reasoningParser).toBe("qwen3");
    expect(familyFromTemplate({ tokenizer, chatTemplate: chatMl }).thinkingVariable).toBe(null);
  });

  test.each([
    ["a template that Jinja cannot read", "{% if %}", "Cannot read the chat template"],
    ["one that uses what is not supported", '{% include "x" %}', 'the tag "include" is not supported'],
    [
      "one that doubles",
      '{% set ns = namespace(t="x") %}{% for i in range(99) %}{% set ns.t = ns.t + ns.t %}{% endfor %}',
      "it makes a text of more than",
    ],
    ["one that refuses a question", '{{ raise_exception("no") }}', "it refuses a question: no"],
    [
      "one that refuses an answer",
      "{% for m in messages %}{{ m.content if m.role == 'user' else raise_exception('no') }}{% endfor %}",
      "it refuses a question with an answer",
    ],
    ["one without special tokens", "{% for m in messages %}{{ m.content }}{% endfor %}", "it writes no special token"],
  ])("refuses %s, with the reason", (_, chatTemplate, reason) => {
    expect(() => familyFromTemplate({ tokenizer, chatTemplate })).toThrow(ConfigurationError);
    expect(() => familyFromTemplate({ tokenizer, chatTemplate })).toThrow(reason);
  });
});
