// The chat template of Qwen3, second revision (hybrid thinking): as the first, but content that is no text counts as empty.

import { type ChatTemplate, SegmentWriter } from "../chat-template.ts";
import { attribute } from "../template-values.ts";
import { writeSystem, writeToolResult, writeTurn } from "./parts.ts";
import { splitThinking } from "../split-thinking.ts";
import { lastQueryIndex, writeAssistant, writeThinkingPrompt } from "./thinking.ts";

export const qwen3Revision2: ChatTemplate = ({ messages, tools, addGenerationPrompt, kwargs }) => {
  const writer = new SegmentWriter();
  writeSystem(writer, messages[0], tools);
  const lastQuery = lastQueryIndex(messages, (content) => (typeof content === "string" ? content : null));
  messages.forEach((message, index) => {
    writer.begin(index);
    const role = attribute(message, "role");
    const given = attribute(message, "content");
    const text = typeof given === "string" ? given : "";
    if (role === "user" || (role === "system" && index > 0)) {
      writeTurn(writer, role, text);
    } else if (role === "assistant") {
      const reasoning = attribute(message, "reasoning_content");
      const isSplit = typeof reasoning !== "string" && text.includes("</think>");
      const split = isSplit
        ? splitThinking(text)
        : { reasoning: typeof reasoning === "string" ? reasoning : "", content: text };
      writeAssistant(writer, {
        ...split,
        calls: attribute(message, "tool_calls"),
        isAfterLastQuery: index > lastQuery,
        isLast: index === messages.length - 1,
      });
    } else if (role === "tool") {
      writeToolResult(writer, messages, index, text);
    }
  });
  if (addGenerationPrompt) writeThinkingPrompt(writer, kwargs);
  return writer.finish();
};
