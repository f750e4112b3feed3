// The chat template of QwQ: the generation prompt opens the thinking, and every assistant message but the last loses it.

import { type ChatTemplate, SegmentWriter } from "../chat-template.ts";
import { pythonLstrip } from "../../python-semantics/index.ts";
import {
  attribute,
  isTruthy,
  iterate,
  methodReceiver,
  printed,
  type TemplateValue,
  textOperand,
  toJson,
} from "../template-values.ts";
import {
  endToken,
  startToken,
  writeGenerationPrompt,
  writeToolCall,
  writeToolResult,
  writeTools,
  writeTurn,
} from "./parts.ts";

export const qwq32b: ChatTemplate = ({ messages, tools, addGenerationPrompt }) => {
  const writer = new SegmentWriter();
  writeSystem(writer, messages[0], tools);
  messages.forEach((message, index) => {
    writer.begin(index);
    const role = attribute(message, "role");
    const content = attribute(message, "content");
    if (role === "user" || (role === "system" && index > 0)) {
      writeTurn(writer, role, textOperand(content));
    } else if (role === "assistant") {
      const calls = attribute(message, "tool_calls");
      const shown = index === messages.length - 1 ? content : withoutThinking(content);
      writer.template(`${startToken}assistant`);
      if (!isTruthy(calls) || isTruthy(content)) {
        writer.template("\n");
        writer.words(textOperand(shown));
      }
      for (const call of isTruthy(calls) ? iterate(calls) : []) {
        writer.template("\n");
        writeToolCall(writer, attribute(call, "function") ?? call, toJson);
      }
      writer.template(`${endToken}\n`);
    } else if (role === "tool") {
      writeToolResult(writer, messages, index, printed(content));
    }
  });
  if (addGenerationPrompt) {
    writeGenerationPrompt(writer);
    writer.template("<think>\n");
  }
  return writer.finish();
};

function writeSystem(writer: SegmentWriter, first: TemplateValue, tools: TemplateValue): void {
  const hasWords = attribute(first, "role") === "system";
  if (!hasWords && !isTruthy(tools)) return;
  const content = attribute(first, "content");
  writer.begin(hasWords ? 0 : null);
  writer.template(`${startToken}system\n`);
  if (isTruthy(tools)) {
    if (hasWords) writer.words(printed(content));
    writer.template("\n\n");
    writeTools(writer, tools);
  } else {
    writer.words(textOperand(content));
    writer.template(`${endToken}\n`);
  }
}

function withoutThinking(content: TemplateValue): string {
  return pythonLstrip(methodReceiver(content, "split").split("</think>").at(-1) ?? "", "\n");
}
