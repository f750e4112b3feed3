// The chat template of Kimi-K2-Instruct: append-only, contents verbatim, ids of calls made by the template.

import type { JsonValue } from "../../python-semantics/json/index.ts";
import { type ChatTemplate, SegmentWriter } from "../chat-template.ts";
import {
  attribute,
  contains,
  isTruthy,
  iterate,
  printed,
  type TemplateValue,
  textOperand,
  toJson,
} from "../template-values.ts";

const endToken = "<|im_end|>";

export const kimiK2: ChatTemplate = ({ messages, tools, addGenerationPrompt }) => {
  const writer = new SegmentWriter();
  if (isTruthy(tools)) writeTools(writer, tools);
  messages.forEach((message, index) => {
    const role = attribute(message, "role");
    if (index === 0 && role !== "system") writer.template(`${opening("system")}You are a helpful assistant${endToken}`);
    writer.begin(index);
    writer.template(opening(role));
    const content = attribute(message, "content");
    const calls = attribute(message, "tool_calls");
    if (role === "assistant" && isTruthy(calls)) {
      if (isTruthy(content)) writer.words(printed(content));
      writeCalls(writer, calls);
    } else if (role === "tool") {
      // The template has a backslash and an "n" there, not a line feed.
      writer.template("## Return of ");
      writer.words(printed(attribute(message, "tool_call_id")));
      writer.template("\\n");
      writer.words(printed(content));
    } else if (content !== null) {
      writeContent(writer, content);
    }
    writer.template(endToken);
  });
  writer.begin(null);
  if (addGenerationPrompt) writer.template(opening("assistant"));
  return writer.finish();
};

export function writeTools(writer: SegmentWriter, tools: TemplateValue): void {
  writer.template("<|im_system|>tool_declare<|im_middle|>");
  writer.tools(toJson(tools));
  writer.template(endToken);
}

function opening(role: TemplateValue): string {
  if (role === "system" || role === "tool") return `<|im_system|>${role}<|im_middle|>`;
  if (role === "user") return "<|im_user|>user<|im_middle|>";
  return role === "assistant" ? "<|im_assistant|>assistant<|im_middle|>" : "";
}

function writeCalls(writer: SegmentWriter, calls: TemplateValue): void {
  writer.template("<|tool_calls_section_begin|>");
  for (const [index, call] of iterate(calls).entries()) {
    const body = attribute(call, "function");
    writer.template("<|tool_call_begin|>functions.");
    writer.words(textOperand(attribute(body, "name")));
    writer.template(`:${index}<|tool_call_argument_begin|>`);
    writer.words(toJson(attribute(body, "arguments")));
    writer.template("<|tool_call_end|>");
  }
  writer.template("<|tool_calls_section_end|>");
}

/** A text, or a list of parts. */
export function writeContent(writer: SegmentWriter, content: TemplateValue): void {
  if (typeof content === "string") writer.words(content);
  else for (const part of iterate(content)) writer.words(partText(part));
}

function partText(part: JsonValue): string {
  const isImage = attribute(part, "type") === "image" || contains(part, "image") || contains(part, "image_url");
  return isImage
    ? "<|media_start|>image<|media_content|><|media_pad|><|media_end|>\n"
    : printed(attribute(part, "text"));
}
