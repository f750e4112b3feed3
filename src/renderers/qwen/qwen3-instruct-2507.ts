// The chat template of Qwen3-Instruct-2507: append-only, no thinking, content that is no text counts as empty.

import { type ChatTemplate, SegmentWriter } from "../chat-template.ts";
import { attribute } from "../template-values.ts";
import {
  endToken,
  startToken,
  writeGenerationPrompt,
  writeSystem,
  writeToolCalls,
  writeToolResult,
  writeTurn,
} from "./parts.ts";

export const qwen3Instruct2507: ChatTemplate = ({ messages, tools, addGenerationPrompt }) => {
  const writer = new SegmentWriter();
  writeSystem(writer, messages[0], tools);
  messages.forEach((message, index) => {
    writer.begin(index);
    const role = attribute(message, "role");
    const given = attribute(message, "content");
    const content = typeof given === "string" ? given : "";
    if (role === "user" || (role === "system" && index > 0)) {
      writeTurn(writer, role, content);
    } else if (role === "assistant") {
      writer.template(`${startToken}assistant\n`);
      writer.words(content);
      writeToolCalls(writer, attribute(message, "tool_calls"), content);
      writer.template(`${endToken}\n`);
    } else if (role === "tool") {
      writeToolResult(writer, messages, index, content);
    }
  });
  if (addGenerationPrompt) writeGenerationPrompt(writer);
  return writer.finish();
};
