// The chat templates of GLM-4.5, 4.6 and 4.7: no end token of a message, contents trimmed and wrapped anew, thinking of turns
// before the last user message emptied. 4.7 writes everything without line ends and opens the thinking in its prompt.

import { pythonStrip } from "../../python-semantics/index.ts";
import type { JsonObject, JsonValue } from "../../python-semantics/json/index.ts";
import { type ChatTemplate, SegmentWriter, type TemplateInput } from "../chat-template.ts";
import { splitThinking } from "../split-thinking.ts";
import {
  attribute,
  isTruthy,
  itemsMethod,
  itemsOf,
  iterate,
  printed,
  type TemplateValue,
  textOperand,
  toJson,
} from "../template-values.ts";
import { visibleText } from "../visible-text.ts";

const toolsHeader = `<|system|>
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
`;

const toolsFooter = `</tools>

For each function call, output the function name and arguments within the following XML format:
<tool_call>{function-name}`;

type Style = {
  /** What stands between parts: a line feed, or nothing in 4.7. */
  readonly gap: "\n" | "";
  readonly argumentsExample: string;
  /** Arguments that are no object: 4.6 writes none, the others fail. */
  readonly argumentsOf: (value: TemplateValue) => readonly (readonly [string, JsonValue])[];
  /** What the turn of a model begins with, as the prompt shows it. */
  readonly prompt: (kwargs: JsonObject) => string;
  readonly emptyThinking: string;
  /** Asks a user turn not to think. */
  readonly noThink: string;
};

const lines = {
  gap: "\n",
  argumentsExample: `
<arg_key>{arg-key-1}</arg_key>
<arg_value>{arg-value-1}</arg_value>
<arg_key>{arg-key-2}</arg_key>
<arg_value>{arg-value-2}</arg_value>
...
</tool_call>`,
  prompt: (kwargs) => (isSwitchedOff(kwargs, "enable_thinking") ? "\n<think></think>" : ""),
  emptyThinking: "\n<think></think>",
  noThink: "/nothink",
} as const satisfies Partial<Style>;

export const glm45: ChatTemplate = (input) => render(input, { ...lines, argumentsOf: itemsMethod });
export const glm46: ChatTemplate = (input) =>
  render(input, { ...lines, argumentsOf: (value) => (value instanceof Map ? itemsOf(value) : []) });
export const glm47Flash: ChatTemplate = (input) =>
  render(input, {
    gap: "",
    argumentsExample:
      "<arg_key>{arg-key-1}</arg_key><arg_value>{arg-value-1}</arg_value>" +
      "<arg_key>{arg-key-2}</arg_key><arg_value>{arg-value-2}</arg_value>...</tool_call>",
    argumentsOf: itemsMethod,
    prompt: (kwargs) => (isSwitchedOff(kwargs, "enable_thinking") ? "</think>" : "<think>"),
    emptyThinking: "</think>",
    noThink: "",
  });

function render(
  { messages, tools, addGenerationPrompt, kwargs }: TemplateInput,
  style: Style,
): ReturnType<ChatTemplate> {
  const writer = new SegmentWriter();
  writer.template("[gMASK]<sop>");
  if (isTruthy(tools)) {
    writer.template(toolsHeader);
    for (const tool of iterate(tools)) {
      writer.tools(toJson(tool));
      writer.template("\n");
    }
    writer.template(toolsFooter + style.argumentsExample);
  }
  const lastUser = messages.findLastIndex((message) => attribute(message, "role") === "user");
  messages.forEach((message, index) => {
    writer.begin(index);
    const role = attribute(message, "role");
    const content = attribute(message, "content");
    if (role === "user" || role === "system") {
      writer.template(`<|${role}|>${style.gap}`);
      const words = visibleText(content);
      writer.words(words);
      const isAsked = role === "user" && isSwitchedOff(kwargs, "enable_thinking") && !words.endsWith("/nothink");
      if (isAsked) writer.template(style.noThink);
    } else if (role === "assistant") {
      const keepsThinking = style.gap === "" && isSwitchedOff(kwargs, "clear_thinking");
      writeAssistant(writer, message, { style, showsThinking: keepsThinking || index > lastUser });
    } else if (role === "tool") {
      const isFirst = index === 0 || attribute(messages[index - 1], "role") !== "tool";
      writeToolResults(writer, content, { gap: style.gap, isFirst });
    }
  });
  writer.begin(null);
  if (addGenerationPrompt) writer.template(`<|assistant|>${style.prompt(kwargs)}`);
  return writer.finish();
}

/** Given, and not true. */
function isSwitchedOff(kwargs: JsonObject, name: string): boolean {
  return kwargs.has(name) && !isTruthy(kwargs.get(name));
}

function writeAssistant(
  writer: SegmentWriter,
  message: JsonValue,
  { style, showsThinking }: { readonly style: Style; readonly showsThinking: boolean },
): void {
  writer.template("<|assistant|>");
  const text = visibleText(attribute(message, "content"));
  const given = attribute(message, "reasoning_content");
  const isSplit = typeof given !== "string" && text.includes("</think>");
  const { reasoning, content } = isSplit
    ? splitThinking(text)
    : { reasoning: typeof given === "string" ? given : "", content: text };
  if (showsThinking && reasoning !== "") {
    writer.template(`${style.gap}<think>`);
    writer.words(pythonStrip(reasoning));
    writer.template("</think>");
  } else {
    writer.template(style.emptyThinking);
  }
  const words = pythonStrip(content);
  if (words !== "") {
    writer.template(style.gap);
    writer.words(words);
  }
  const calls = attribute(message, "tool_calls");
  for (const call of isTruthy(calls) ? iterate(calls) : []) {
    const body = attribute(call, "function");
    writeCall(writer, isTruthy(body) ? body : call, style);
  }
}

function writeCall(writer: SegmentWriter, call: TemplateValue, { gap, argumentsOf }: Style): void {
  writer.template(`${gap}<tool_call>`);
  writer.words(textOperand(attribute(call, "name")));
  writer.template(gap);
  for (const [key, value] of argumentsOf(attribute(call, "arguments"))) {
    writer.template("<arg_key>");
    writer.words(key);
    writer.template(`</arg_key>${gap}<arg_value>`);
    writer.words(typeof value === "string" ? value : toJson(value));
    writer.template(`</arg_value>${gap}`);
  }
  writer.template("</tool_call>");
}

function writeToolResults(
  writer: SegmentWriter,
  content: TemplateValue,
  { gap, isFirst }: { readonly gap: string; readonly isFirst: boolean },
): void {
  const isText = typeof content === "string";
  if (isFirst || !isText) writer.template("<|observation|>");
  for (const result of isText ? [content] : iterate(content)) {
    writer.template(`${gap}<tool_response>${gap}`);
    writer.words(printed(attribute(result, "output") ?? result));
    writer.template(`${gap}</tool_response>`);
  }
}
