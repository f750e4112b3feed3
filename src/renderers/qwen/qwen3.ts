// The chat template of Qwen3, first revision (hybrid thinking): rewrites history, refuses content that is no text.

import { type ChatTemplate, SegmentWriter } from "../chat-template.ts";
import { attribute, contains, methodReceiver, printed, textOperand } from "../template-values.ts";
import { writeSystem, writeToolResult, writeTurn } from "./parts.ts";
import { splitThinking } from "../split-thinking.ts";
import { lastQueryIndex, writeAssistant, writeThinkingPrompt } from "./thinking.ts";

export const qwen3: ChatTemplate = ({ messages, tools, addGenerationPrompt, kwargs }) => {
  const writer = new SegmentWriter();
  writeSystem(writer, messages[0], tools);
  const lastQuery = lastQueryIndex(messages, (content) => methodReceiver(content, "startswith"));
  messages.forEach((message, index) => {
    writer.begin(index);
    const role = attribute(message, "role");
    const given = attribute(message, "content");
    if (role === "user" || (role === "system" && index > 0)) {
      writeTurn(writer, role, textOperand(given));
    } else if (role === "assistant") {
      const reasoning = attribute(message, "reasoning_content");
      const isSplit = (reasoning === undefined || reasoning === null) && contains(given, "</think>");
      const split = isSplit ? splitThinking(methodReceiver(given, "split")) : null;
      writeAssistant(writer, {
        content: split === null ? given : split.content,
        reasoning: split?.reasoning ?? reasoning ?? "",
        calls: attribute(message, "tool_calls"),
        isAfterLastQuery: index > lastQuery,
        isLast: index === messages.length - 1,
      });
    } else if (role === "tool") {
      writeToolResult(writer, messages, index, printed(given));
    }
  });
  if (addGenerationPrompt) writeThinkingPrompt(writer, kwargs);
  return writer.finish();
};
