// The chat template of MiniMax-M3: thinking of turns before the last user message dropped, calls as `invoke` tags, tool results
// closed with the name of the call before them.

import type { JsonValue } from "../../python-semantics/json/index.ts";
import { pythonStrip } from "../../python-semantics/index.ts";
import { type ChatTemplate, SegmentWriter, type TemplateInput } from "../chat-template.ts";
import {
  attribute,
  isTruthy,
  itemsMethod,
  iterate,
  printed,
  raised,
  type TemplateValue,
  textOperand,
  toJson,
} from "../template-values.ts";
import { visibleText } from "../visible-text.ts";

export const endToken = "[e~[";
const startToken = "]~b]";
const callsBegin = "<minimax:tool_call>";
const callsEnd = "</minimax:tool_call>";
const thinkBegin = "<mm:think>";
export const thinkEnd = "</mm:think>";

const toolsHeader = `

# Tools
You may call one or more tools to assist with the user query.
Here are the tools available in JSONSchema format:

<tools>
`;

const toolsFooter = `</tools>

When making tool calls, use XML format to invoke tools and pass parameters:

${callsBegin}
    <invoke name="tool-name">
        <parameter name="param-name1">param-value-1</parameter>
        <parameter name="param-name2">param-value-2</parameter>
        ...
    </invoke>
${callsEnd}`;

export const minimaxM3: ChatTemplate = (input) => {
  const { messages, addGenerationPrompt } = input;
  const writer = new SegmentWriter();
  const hasSystem = messages.length > 0 && attribute(messages[0], "role") === "system";
  writeSystem(writer, input, hasSystem);
  const first = hasSystem ? 1 : 0;
  const lastUser = messages.findLastIndex((message, index) => index >= first && attribute(message, "role") === "user");
  let lastCall: TemplateValue = null;
  messages.forEach((message, index) => {
    if (index < first) return;
    writer.begin(index);
    const role = attribute(message, "role");
    if (role === "assistant") {
      lastCall = writeAssistant(writer, message, index > lastUser);
    } else if (role === "tool") {
      if (lastCall === null) {
        throw raised("Message has tool role, but there was no previous assistant message with a tool call!");
      }
      const isFirst = index === first || attribute(messages[index - 1], "role") !== "tool";
      if (isFirst) writer.template(`${startToken}tool`);
      writeResult(writer, attribute(message, "content"), lastCall);
      const isLast = index === messages.length - 1 || attribute(messages[index + 1], "role") !== "tool";
      if (isLast) writer.template(`${endToken}\n`);
    } else if (role === "user") {
      writer.template(`${startToken}user\n`);
      writer.words(visibleText(attribute(message, "content")));
      writer.template(`${endToken}\n`);
    }
  });
  writer.begin(null);
  if (addGenerationPrompt) writer.template(`${startToken}ai\n${thinkBegin}\n`);
  return writer.finish();
};

function writeSystem(writer: SegmentWriter, { messages, tools, kwargs }: TemplateInput, hasSystem: boolean): void {
  const message = hasSystem ? messages[0] : null;
  const content = attribute(message, "content");
  writer.begin(hasSystem ? 0 : null);
  writer.template(`]~!b[${startToken}system\n`);
  const identity = kwargs.has("model_identity")
    ? printed(kwargs.get("model_identity"))
    : "You are a helpful assistant.";
  if (isTruthy(content)) writer.words(visibleText(content));
  else writer.template(identity);
  for (const [field, label] of [
    ["current_date", "Current date: "],
    ["current_location", "Current location: "],
  ] as const) {
    const value = attribute(message, field);
    if (isTruthy(value)) writer.words(`\n${label}${textOperand(value)}`);
  }
  if (isTruthy(tools)) {
    writer.template(toolsHeader);
    for (const tool of iterate(tools)) writer.tools(`<tool>${toJson(attribute(tool, "function"))}</tool>\n`);
    writer.template(toolsFooter);
  }
  writer.template(`${endToken}\n`);
}

/** Gives the name that closes tool results; `null` when there was no call. */
function writeAssistant(writer: SegmentWriter, message: JsonValue, showsThinking: boolean): TemplateValue {
  writer.template(`${startToken}ai\n`);
  const given = attribute(message, "reasoning_content");
  const text = visibleText(attribute(message, "content"));
  const split = typeof given === "string" ? { reasoning: given, content: text } : splitThinking(text);
  if (split.reasoning !== "" && showsThinking) {
    writer.template(`${thinkBegin}\n`);
    writer.words(split.reasoning);
    writer.template(`\n${thinkEnd}\n\n`);
  }
  writer.words(split.content);
  const calls = attribute(message, "tool_calls");
  let lastCall: TemplateValue = null;
  if (isTruthy(calls)) {
    writer.template(`\n${callsBegin}\n`);
    for (const call of iterate(calls)) {
      const body = attribute(call, "function");
      writeCall(writer, isTruthy(body) ? body : call);
    }
    writer.template(callsEnd);
    lastCall = attribute(attribute(Array.isArray(calls) ? calls.at(-1) : undefined, "function"), "name");
  }
  writer.template(`${endToken}\n`);
  return lastCall;
}

function splitThinking(text: string): { readonly reasoning: string; readonly content: string } {
  for (const [begin, end] of [
    [thinkBegin, thinkEnd],
    ["<think>", "</think>"],
  ] as const) {
    if (!text.includes(end)) continue;
    const parts = text.split(end);
    const before = pythonStrip(parts[0] ?? "", "\n").split(begin);
    return { reasoning: pythonStrip(before.at(-1) ?? "", "\n"), content: pythonStrip(parts.at(-1) ?? "", "\n") };
  }
  return { reasoning: "", content: text };
}

function writeCall(writer: SegmentWriter, call: TemplateValue): void {
  writer.template('<invoke name="');
  writer.words(printed(attribute(call, "name")));
  writer.template('">\n');
  for (const [key, value] of itemsMethod(attribute(call, "arguments"))) {
    writer.template('<parameter name="');
    writer.words(key);
    writer.template('">');
    writer.words(typeof value === "string" ? value : toJson(value));
    writer.template("</parameter>\n");
  }
  writer.template("</invoke>\n");
}

function writeResult(writer: SegmentWriter, content: TemplateValue, lastCall: TemplateValue): void {
  if (typeof content === "string") {
    writer.template("\n");
    writer.words(content);
    writer.template(`</${printed(lastCall)}>`);
    return;
  }
  for (const part of iterate(content)) {
    const text = attribute(part, "type") === "text" ? attribute(part, "text") : undefined;
    writer.template("\n");
    writer.words(printed(attribute(part, "output") ?? text ?? part));
    writer.template("\n");
  }
}
