// The chat templates of DeepSeek-V3.1: the published one (no tools block, arguments must be texts) and SGLang's with tools, whose
// indentation is part of what it writes. Both cut an answer after its first closing think tag, and neither writes a
// generation prompt after tool results.

import type { JsonObject, JsonValue } from "../../python-semantics/json/index.ts";
import { type ChatTemplate, SegmentWriter, type TemplateInput } from "../chat-template.ts";
import {
  attribute,
  contains,
  isTruthy,
  iterate,
  methodReceiver,
  printed,
  type TemplateValue,
  textOperand,
  toJson,
} from "../template-values.ts";
import {
  argumentsText,
  assistantToken,
  callBegin,
  callEnd,
  callsBegin,
  callSeparator,
  callsEnd,
  endToken,
  outputBegin,
  outputEnd,
  userToken,
  writeSystem,
} from "./parts.ts";

/** White space that the indentation of a template leaves in front of its parts. */
type Indentation = {
  readonly start: string;
  readonly assistant: string;
  readonly think: string;
  readonly words: string;
  readonly firstCall: string;
  readonly call: string;
  readonly callsEnd: string;
  readonly prompt: string;
  readonly promptThink: string;
};

const flat: Indentation = {
  start: "",
  assistant: "",
  think: "",
  words: "",
  firstCall: "",
  call: "",
  callsEnd: "",
  prompt: "",
  promptThink: "",
};

const indented: Indentation = {
  start: "\n\n",
  assistant: " ".repeat(6),
  think: " ".repeat(8),
  words: " ".repeat(6),
  firstCall: " ".repeat(10),
  call: " ".repeat(8),
  callsEnd: " ".repeat(4),
  prompt: " ".repeat(2),
  promptThink: " ".repeat(4),
};

export const deepseekV31: ChatTemplate = (input) => render({ ...input, tools: null }, flat, textOperand);
export const deepseekV31SglangTools: ChatTemplate = (input) => render(input, indented, argumentsText);

type State = { isTool: boolean; isLastUser: boolean };

function render(
  { messages, tools, addGenerationPrompt, kwargs, context }: TemplateInput,
  indent: Indentation,
  writeArguments: (value: TemplateValue) => string,
): ReturnType<ChatTemplate> {
  const writer = new SegmentWriter();
  writer.template(indent.start + printed(context.specialTokens.get("bos_token")));
  writeSystem(writer, messages);
  if (tools !== null) writeTools(writer, tools);
  const state: State = { isTool: false, isLastUser: false };
  messages.forEach((message, index) => {
    writer.begin(index);
    const role = attribute(message, "role");
    if (role === "user") {
      state.isTool = false;
      state.isLastUser = true;
      writer.template(userToken);
      writer.words(textOperand(attribute(message, "content")));
    } else if (role === "assistant") {
      const calls = attribute(message, "tool_calls");
      if (calls === undefined || calls === null) writeAnswer(writer, message, { state, indent, kwargs });
      else writeCalls(writer, message, { state, indent, writeArguments });
    } else if (role === "tool") {
      state.isLastUser = false;
      state.isTool = true;
      writer.template(outputBegin);
      writer.words(textOperand(attribute(message, "content")));
      writer.template(outputEnd);
    }
  });
  writer.begin(null);
  if (addGenerationPrompt && state.isLastUser && !state.isTool) {
    const think = isTruthy(kwargs.get("thinking")) ? "<think>" : "</think>";
    writer.template(indent.prompt + assistantToken + indent.promptThink + think);
  }
  return writer.finish();
}

function writeTools(writer: SegmentWriter, tools: TemplateValue): void {
  writer.template("\n\n## Tools\nYou have access to the following tools:\n");
  for (const tool of iterate(tools)) {
    const body = attribute(tool, "function");
    const description = attribute(body, "description");
    const name = textOperand(attribute(body, "name"));
    const about = description === null ? "" : `\nDescription: ${textOperand(description)}`;
    writer.tools(`\n### ${name}${about}\n\nParameters: ${toJson(attribute(body, "parameters"))}\n`);
  }
  writer.template(
    `\nIMPORTANT: ALWAYS adhere to this exact format for tool use:\n${callsBegin}${callBegin}tool_call_name${callSeparator}` +
      `tool_call_arguments${callEnd}{{additional_tool_calls}}${callsEnd}\n\nWhere:\n\n` +
      "- `tool_call_name` must be an exact match to one of the available tools\n" +
      "- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters Schema\n" +
      "- For multiple tool calls, chain them directly without separators or spaces\n",
  );
}

function writeAnswer(
  writer: SegmentWriter,
  message: JsonValue,
  { state, indent, kwargs }: { readonly state: State; readonly indent: Indentation; readonly kwargs: JsonObject },
): void {
  if (state.isLastUser) {
    const isPrefix = isTruthy(attribute(message, "prefix")) && isTruthy(kwargs.get("thinking"));
    writer.template(indent.assistant + assistantToken + indent.think + (isPrefix ? "<think>" : "</think>"));
  }
  const content = attribute(message, "content");
  const isCut = !state.isTool && contains(content, "</think>");
  writer.template(indent.words);
  writer.words(isCut ? afterThinking(content) : textOperand(content));
  writer.template(endToken);
  state.isLastUser = false;
  state.isTool = false;
}

function afterThinking(content: TemplateValue): string {
  const text = methodReceiver(content, "split");
  return text.slice(text.indexOf("</think>") + "</think>".length);
}

function writeCalls(
  writer: SegmentWriter,
  message: JsonValue,
  options: {
    readonly state: State;
    readonly indent: Indentation;
    readonly writeArguments: (value: TemplateValue) => string;
  },
): void {
  const { state, indent, writeArguments } = options;
  if (state.isLastUser) writer.template(`${indent.assistant}${assistantToken}</think>`);
  state.isLastUser = false;
  state.isTool = false;
  for (const [index, call] of iterate(attribute(message, "tool_calls")).entries()) {
    const body = attribute(call, "function");
    const content = attribute(message, "content");
    writer.template(index === 0 ? indent.firstCall : indent.call);
    if (index === 0 && content !== null) writer.words(textOperand(content));
    writer.template(`${index === 0 ? callsBegin : ""}${callBegin}`);
    writer.words(textOperand(attribute(body, "name")));
    writer.template(callSeparator);
    writer.words(writeArguments(attribute(body, "arguments")));
    writer.template(callEnd);
  }
  writer.template(`${indent.callsEnd}${callsEnd}${endToken}`);
}
