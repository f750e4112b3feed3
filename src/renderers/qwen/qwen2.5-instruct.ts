// The chat template of Qwen2.5-Instruct: append-only, with a default system turn, assistant content verbatim.

import { type ChatTemplate, SegmentWriter } from "../chat-template.ts";
import { attribute, isTruthy, iterate, printed, type TemplateValue, textOperand, toJson } from "../template-values.ts";
import {
  endToken,
  startToken,
  writeGenerationPrompt,
  writeToolCall,
  writeToolResult,
  writeTools,
  writeTurn,
} from "./parts.ts";

const defaultSystem = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";

export const qwen25Instruct: ChatTemplate = ({ messages, tools, addGenerationPrompt }) => {
  const writer = new SegmentWriter();
  writeSystem(writer, messages[0], tools);
  messages.forEach((message, index) => {
    writer.begin(index);
    const role = attribute(message, "role");
    const calls = attribute(message, "tool_calls");
    if (role === "user" || (role === "system" && index > 0) || (role === "assistant" && !isTruthy(calls))) {
      writeTurn(writer, role, textOperand(attribute(message, "content")));
    } else if (role === "assistant") {
      writer.template(`${startToken}assistant`);
      const content = attribute(message, "content");
      if (isTruthy(content)) {
        writer.template("\n");
        writer.words(textOperand(content));
      }
      for (const call of iterate(calls)) {
        writer.template("\n");
        const body = attribute(call, "function");
        writeToolCall(writer, body === undefined ? call : body, toJson);
      }
      writer.template(`${endToken}\n`);
    } else if (role === "tool") {
      writeToolResult(writer, messages, index, printed(attribute(message, "content")));
    }
  });
  if (addGenerationPrompt) writeGenerationPrompt(writer);
  return writer.finish();
};

function writeSystem(writer: SegmentWriter, first: TemplateValue, tools: TemplateValue): void {
  const hasWords = attribute(first, "role") === "system";
  const content = attribute(first, "content");
  writer.begin(hasWords ? 0 : null);
  writer.template(`${startToken}system\n`);
  if (!hasWords) writer.template(defaultSystem);
  // With tools the words are printed, without them they are added to a text: only the second refuses other values.
  else writer.words(isTruthy(tools) ? printed(content) : textOperand(content));
  if (isTruthy(tools)) {
    writer.template("\n\n");
    writeTools(writer, tools);
  } else {
    writer.template(`${endToken}\n`);
  }
}
