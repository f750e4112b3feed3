// The encoders with sentences of our own; `npm run verify -- encoders` compares them with the servers' modules and the vendors' sentences.
// Their bridges are tested with those of all families, in ../families.test.ts.

import { describe, expect, test } from "vitest";

import { type Message, toolFromDefinition } from "../../core/index.ts";
import { fromPlain, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { ChatTemplateError, type PromptEncoder } from "../chat-template.ts";
import { segmentsText } from "../segments.ts";
import { byteTokenizer } from "../marker-tokenizer.test-helper.ts";
import { wireMessages } from "../renderer-family.ts";
import { createTemplateRenderer } from "../template-renderer.ts";
import { auditTemplate } from "../audit/audit-template.ts";
import { deepseekTypes, encoderSamples, testEncoder } from "./encoders.test-helper.ts";
import { encoderOf } from "./encoder-table.ts";

const tools = fromPlain([{ type: "function", function: { name: "add", parameters: {} } }]);

const call = (name: string, argumentsText: string, id: string) => ({ id, name, argumentsText });

const conversation: readonly Message[] = [
  { role: "system", content: "Rules." },
  { role: "user", content: "Hi" },
  { role: "assistant", content: "Hello.", reasoning: "Polite.", toolCalls: [] },
  { role: "user", content: "2 + 2?" },
  {
    role: "assistant",
    content: "",
    reasoning: "Add.",
    toolCalls: [call("add", '{"a": 2, "what": "b"}', "x"), call("add", "{}", "y")],
  },
  { role: "tool", content: "four", name: "add", callId: "y" },
  { role: "tool", content: "five", name: "add", callId: "x" },
];

type Given = {
  readonly messages?: readonly JsonValue[];
  readonly tools?: JsonValue;
  readonly variables?: object;
  readonly addGenerationPrompt?: boolean;
};

function prompt(encoder: PromptEncoder, given: Given = {}): string {
  return segmentsText(
    encoder({
      messages: given.messages ?? wireMessages({ ...encoder.family, restate: (messages) => messages }, conversation),
      tools: given.tools ?? null,
      addGenerationPrompt: given.addGenerationPrompt ?? true,
      kwargs: fromPlain(given.variables ?? {}) as JsonObject,
      context: { specialTokens: new Map(), now: null },
    }),
  );
}

const plain = (role: string, content: unknown): JsonValue => fromPlain({ role, content });

describe("deepseek-v3.2", async () => {
  const encoder = await testEncoder("deepseek_v32");

  test("writes tools after the first system message, calls as tags, and results in one block", () => {
    expect(prompt(encoder, { tools, variables: { thinking: true } })).toBe(
      '<｜begin▁of▁sentence｜>Rules.\n\n## Our tools of ｜DSML｜\nWrite {"a": 1} after <think></think>:\n' +
        '{"name": "add", "parameters": {}}\nThe end.\n<｜User｜>Hi<｜Assistant｜></think>Hello.<｜end▁of▁sentence｜>' +
        "<｜User｜>2 + 2?<｜Assistant｜><think>Add.</think>\n\n<｜DSML｜function_calls>\n" +
        '<｜DSML｜invoke name="add">\n<｜DSML｜parameter name="a" string="false">2</｜DSML｜parameter>\n' +
        '<｜DSML｜parameter name="what" string="true">b</｜DSML｜parameter>\n</｜DSML｜invoke>\n' +
        '<｜DSML｜invoke name="add">\n\n</｜DSML｜invoke>\n</｜DSML｜function_calls><｜end▁of▁sentence｜>' +
        "\n\n<function_results>\n<result>four</result>\n<result>five</result>\n</function_results>\n\n<think>",
    );
  });

  test("leaves thinking off, and the prompt of an answer out where none is requested", () => {
    const messages = [plain("user", "Hi")];
    expect(prompt(encoder, { messages })).toBe("<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜></think>");
    expect(prompt(encoder, { messages, addGenerationPrompt: false })).toBe("<｜begin▁of▁sentence｜><｜User｜>Hi");
  });

  test("writes a developer's message as a question", () => {
    expect(prompt(encoder, { messages: [plain("developer", "Be brief.")] })).toBe(
      "<｜begin▁of▁sentence｜><｜User｜>\n\n# The user's message is: Be brief.<｜Assistant｜></think>",
    );
  });

  test.each([
    ["no messages", [], {}],
    ["a result of no call", [plain("user", "Hi"), plain("tool", "4")], {}],
    ["an unknown role", [plain("critic", "No.")], {}],
    ["content in parts", [plain("user", [{ type: "text", text: "Hi" }])], {}],
    ["a message that is not an object", [null], {}],
    ["an answer without a thought", [plain("user", "Hi"), plain("assistant", "Hello")], { thinking: true }],
    [
      "a developer's message that dropping takes out",
      [plain("developer", "a"), plain("user", "b")],
      { thinking: true },
    ],
    [
      "arguments that are not an object",
      [fromPlain({ role: "assistant", tool_calls: [{ function: { name: "a", arguments: "[]" } }] })],
      {},
    ],
  ])("refuses %s", (_, messages, variables) => {
    expect(() => prompt(encoder, { messages, variables })).toThrow(ChatTemplateError);
  });
});

describe("deepseek-v4", async () => {
  const encoder = await testEncoder("deepseek_v4");

  test("puts results in the order of their calls into the question, and the effort before everything", () => {
    expect(prompt(encoder, { tools, variables: { reasoning_effort: "max" } })).toBe(
      "<｜begin▁of▁sentence｜>Think very well.\n\nRules.\n\nTools, called with ｜DSML｜:\n" +
        '{"name": "add", "parameters": {}}\nNo more tools.<｜User｜>Hi<｜Assistant｜><think>Polite.</think>Hello.' +
        "<｜end▁of▁sentence｜><｜User｜>2 + 2?<｜Assistant｜><think>Add.</think>\n\n<｜DSML｜tool_calls>\n" +
        '<｜DSML｜invoke name="add">\n<｜DSML｜parameter name="a" string="false">2</｜DSML｜parameter>\n' +
        '<｜DSML｜parameter name="what" string="true">b</｜DSML｜parameter>\n</｜DSML｜invoke>\n' +
        '<｜DSML｜invoke name="add">\n\n</｜DSML｜invoke>\n</｜DSML｜tool_calls><｜end▁of▁sentence｜>' +
        "<｜User｜><tool_result>five</tool_result>\n\n<tool_result>four</tool_result><｜Assistant｜><think>",
    );
  });

  test("drops earlier thoughts where there are no tools, unless it is told otherwise", () => {
    const variables = { reasoning_effort: "low" };
    expect(prompt(encoder, { variables })).toContain("<｜Assistant｜></think>Hello.");
    expect(prompt(encoder, { variables: { ...variables, drop_thinking: false } })).toContain("<think>Polite.</think>");
    expect(prompt(encoder, { variables: { thinking: false } })).not.toContain("<think>");
  });
});

describe("deepseek-v4.1", async () => {
  const encoder = await testEncoder("deepseek_v41");

  test("opens system messages with a token, and writes the effort as a number", () => {
    const messages = [plain("user", "Hi"), plain("system", "Brief.")];
    expect(prompt(encoder, { messages, variables: { reasoning_effort: "low" } })).toBe(
      "<｜begin▁of▁sentence｜><｜System｜>Effort 50 of 100.\n\n<｜User｜>Hi<｜System｜>Brief.<｜Assistant｜><think>",
    );
    expect(prompt(encoder, { messages, variables: { reasoning_effort: 33 } })).toContain("Effort 33 of 100.");
  });

  test("reads arguments that are written as text, and keeps what is none", () => {
    const answer = (given: string) => [
      fromPlain({ role: "assistant", tool_calls: [{ function: { name: "add", arguments: given } }] }),
    ];
    const written = (given: string) => prompt(encoder, { messages: answer(given), variables: { thinking: false } });
    expect(written('"{\\"a\\": 1}"')).toContain('<｜DSML｜ parameter name="a" string="false">1</｜DSML｜ parameter>');
    expect(written("none")).toContain('name="arguments" string="true">none</｜DSML｜ parameter>');
  });

  test.each([0, 101, 1.5, true, "medium", ""])("refuses the effort %j", (effort) => {
    expect(() => prompt(encoder, { variables: { reasoning_effort: effort } })).toThrow("reasoning_effort is not");
  });
});

describe("glm-5.3", async () => {
  const encoder = await testEncoder("glm_moe_dsa");

  test("writes the effort, tools with their keys as they are, thoughts, and results in the order of their calls", () => {
    expect(prompt(encoder, { tools, variables: { reasoning_effort: "low" } })).toBe(
      "[gMASK]<sop><|system|>Reasoning Effort: Low<|system|>\nTools:\n" +
        '{"name": "add", "parameters": {}}\nNo more tools.<|system|>Rules.<|user|>Hi' +
        "<|assistant|><think>Polite.</think>Hello.<|user|>2 + 2?<|assistant|><think>Add.</think>" +
        "<tool_call>add<arg_key>a</arg_key><arg_value>2</arg_value><arg_key>what</arg_key><arg_value>b</arg_value>" +
        "</tool_call><tool_call>add</tool_call><|observation|><tool_response>five</tool_response>" +
        "<tool_response>four</tool_response><|assistant|><think>",
    );
  });

  test("clears the thoughts before the last question where it is told to", () => {
    const text = prompt(encoder, { variables: { clear_thinking: true } });
    expect(text).toContain("Effort: Max<|system|>Rules.<|user|>Hi<|assistant|><think></think>Hello.");
    expect(text).toContain("<think>Add.</think>");
  });

  test("is audited like a chat template", async () => {
    const { family } = encoder;
    const tokens = ["[gMASK]", "<sop>", "<|assistant|>", "<|system|>", ...family.stopTokens, "<think>", "</think>"];
    const tokenizer = await byteTokenizer([...tokens, ...encoderSamples[family.name]!.markers]);
    const { renderer, problems } = auditTemplate({ tokenizer, chatTemplate: encoder });
    expect(problems).toEqual([]);
    expect(renderer).toMatchObject({ family: "glm-5.3", kind: "family", generationPrompt: "<|assistant|><think>" });
  });

  test("is for folders that have its module and no chat template", async () => {
    await expect(testEncoder("glm_moe_dsa", [])).rejects.toThrow("the folder has neither its chat template nor");
    expect(encoderOf(new Map([["architectures", ["Glm5NextForConditionalGeneration"]]]))?.name).toBe("glm-5.3");
  });
});

describe("inkling", async () => {
  const encoder = await testEncoder("inkling");
  const { family } = encoder;
  const tokens = [family.startToken, ...family.stopTokens, ...encoderSamples["inkling"]!.markers];
  const effort = (value: unknown): string =>
    /Thinking effort level: (.*?)</.exec(prompt(encoder, { variables: { reasoning_effort: value } }))?.[1] ?? "none";

  test("writes blocks of thought, text and calls, with sorted keys, the tools first and the effort before the question", () => {
    expect(prompt(encoder, { tools })).toBe(
      '<|message_system|>tool_declare<|content_xml|>[{"description":"","name":"add","parameters":{},"type":"function"}]' +
        "<|end_message|><|message_system|><|content_text|>Rules.<|end_message|>" +
        "<|message_system|><|content_text|>Thinking effort level: 0.9<|end_message|>" +
        "<|message_user|><|content_text|>Hi<|end_message|><|message_model|><|content_thinking|>Polite.<|end_message|>" +
        "<|message_model|><|content_text|>Hello.<|end_message|><|content_model_end_sampling|>" +
        "<|message_user|><|content_text|>2 + 2?<|end_message|><|message_model|><|content_thinking|>Add.<|end_message|>" +
        '<|message_model|>add<|content_invoke_tool_json|>{"name":"add","args":{"a":2,"what":"b"}}<|end_message|>' +
        '<|message_model|>add<|content_invoke_tool_json|>{"name":"add","args":{}}<|end_message|><|content_model_end_sampling|>' +
        "<|message_tool|>add<|content_text|>four<|end_message|><|message_tool|>add<|content_text|>five<|end_message|>" +
        "<|message_model|>",
    );
  });

  test("writes a part of a message as a block, and the tools of a developer's message with the others", () => {
    const developer = fromPlain({
      role: "developer",
      content: "Brief.",
      tools: [{ function: { name: "b" }, type: "x" }],
    });
    const messages = [developer, plain("user", ["a", { type: "text", text: "b" }, { text: "c" }])];
    expect(prompt(encoder, { messages, tools, addGenerationPrompt: false, variables: { reasoning_effort: "?" } })).toBe(
      '<|message_system|>tool_declare<|content_xml|>[{"description":"","name":"add","parameters":{},"type":"function"},' +
        '{"description":"","name":"b","parameters":{},"type":"x"}]<|end_message|>' +
        "<|message_system|><|content_text|>Brief.<|end_message|><|message_user|><|content_text|>a<|end_message|>" +
        "<|message_user|><|content_text|>b<|end_message|><|message_user|><|content_text|>c<|end_message|>",
    );
  });

  test("states the effort as a number, and none for a name that the server does not know", () => {
    expect(["none", "minimal", "high", "max", 0.125, 0.375, 0.5, "fast", true].map(effort)).toEqual([
      "0.0",
      "0.1",
      "0.9",
      "0.99",
      "0.12",
      "0.38",
      "0.5",
      "none",
      "none",
    ]);
    expect(() => effort(1)).toThrow("reasoning_effort is not from 0.0 to 0.99");
  });

  test.each([
    ["an unknown role", [plain("critic", "No.")]],
    ["an image", [plain("user", [{ type: "image_url" }])]],
    ["content that is a number", [plain("user", 1)]],
    [
      "arguments that are not an object",
      [fromPlain({ role: "assistant", tool_calls: [{ function: { name: "a", arguments: "[]" } }] })],
    ],
  ])("refuses %s", (_, messages) => {
    expect(() => prompt(encoder, { messages })).toThrow(ChatTemplateError);
  });

  test("writes an action back as it was sampled, and keeps what a user spells out from being a control token", async () => {
    const tokenizer = await byteTokenizer(tokens);
    const renderer = createTemplateRenderer(family, tokenizer, { chatTemplate: encoder });
    const { thought, call: action } = encoderSamples["inkling"]!;
    const messages: Message[] = [
      { role: "user", content: "<|end_message|>" },
      { role: "assistant", content: `${thought}<|message_model|>${action}`, reasoning: null, toolCalls: [] },
    ];
    const { text, spelledTokens } = renderer.renderPrompt(messages, []);
    expect(text).toContain(`<|message_model|>${thought}<|message_model|>${action}<|content_model_end_sampling|>`);
    expect(spelledTokens).toBe(1);
  });

  test("is audited like a chat template, and takes the name that a tokenizer has for a token", async () => {
    const { problems } = auditTemplate({ tokenizer: await byteTokenizer(tokens), chatTemplate: encoder });
    expect(problems).toEqual([]);
    const renamed = tokens.map((token) => (token === "<|content_xml|>" ? "<|unused_200024|>" : token));
    const renderer = createTemplateRenderer(family, await byteTokenizer(renamed), { chatTemplate: encoder });
    const tool = toolFromDefinition((tools as JsonObject[])[0]!);
    expect(renderer.renderPrompt([{ role: "user", content: "Hi" }], [tool]).text).toContain(
      "declare<|unused_200024|>[",
    );
    const without = await byteTokenizer(tokens.filter((token) => token !== "<|content_xml|>"));
    expect(() => createTemplateRenderer(family, without, { chatTemplate: encoder })).toThrow(
      'no token "<|content_xml|>"',
    );
  });
});

describe.each(deepseekTypes)("the encoder for %s", async (modelType) => {
  const bare = await testEncoder(modelType, []);
  const encoder = await testEncoder(modelType);
  const { family } = encoder;
  const tokenizer = await byteTokenizer([
    ...[family.startToken, ...family.stopTokens, "<｜begin▁of▁sentence｜>"],
    ...encoderSamples[family.name]!.markers,
  ]);

  test("needs no file of the vendor's for a conversation without tools and thinking, and names the file for others", () => {
    expect(prompt(bare, { variables: { thinking: false } })).toContain("Hello.");
    expect(() => prompt(bare, { tools, variables: { thinking: false } })).toThrow(
      /TOOLS\w*TEMPLATE is in none .* encoding\/\w+\.py/,
    );
  });

  test("makes a renderer that says the variables it reads", () => {
    const renderer = createTemplateRenderer(family, tokenizer, { chatTemplate: encoder, thinking: true });
    expect(renderer.templateKwargs).toEqual(new Map([["thinking", true]]));
    const { renderer: other, unread } = renderer.withTemplateKwargs!(
      new Map<string, JsonValue>([
        ["drop_thinking", false],
        ["colour", "red"],
      ]),
    );
    expect(unread).toEqual(["colour"]);
    expect(other.templateKwargs?.get("drop_thinking")).toBe(false);
    expect(other.renderPrompt([{ role: "user", content: "Hi" }], []).text).toMatch(/<think>$/);
  });

  test("keeps what a user spells out from being a control token", () => {
    const renderer = createTemplateRenderer(family, tokenizer, { chatTemplate: encoder });
    const { tokens, spelledTokens } = renderer.renderPrompt([{ role: "user", content: family.stopTokens[0]! }], []);
    expect(spelledTokens).toBe(1);
    expect(tokens).not.toContain(renderer.stopTokenIds[0]);
  });

  test("is audited like a chat template", () => {
    const { renderer, problems } = auditTemplate({ tokenizer, chatTemplate: encoder, thinking: true });
    expect(problems).toEqual([]);
    expect(renderer).toMatchObject({ family: family.name, kind: "family", generationPrompt: "<｜Assistant｜><think>" });
  });
});

describe("encoderOf()", () => {
  const nameOf = (config: object): string | undefined => encoderOf(fromPlain(config) as JsonObject)?.name;

  test("goes by model type, then by architecture", () => {
    expect(nameOf({ model_type: "deepseek_v32" })).toBe("deepseek-v3.2");
    expect(nameOf({ model_type: "deepseek_v41", architectures: ["DeepseekV4ForCausalLM"] })).toBe("deepseek-v4.1");
    expect(nameOf({ model_type: "other", architectures: ["DeepseekV4ForCausalLM"] })).toBe("deepseek-v4");
    expect(nameOf({ model_type: "deepseek_v3", architectures: ["DeepseekV3ForCausalLM"] })).toBe(undefined);
    expect(nameOf({ architectures: "DeepseekV4" })).toBe(undefined);
    expect(encoderOf(null)).toBe(null);
  });

  test("refuses by name the models whose prompts nothing here makes", async () => {
    const row = encoderOf(fromPlain({ model_type: "kimi_k3" }) as JsonObject)!;
    await expect(row.load([])).rejects.toThrow('Cannot render for model family "kimi-k3"');
  });
});
