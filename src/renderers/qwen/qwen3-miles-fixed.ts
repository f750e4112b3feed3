// miles' corrected chat template for Qwen3: thinking of past turns is stripped, or, with `clear_thinking` false, everything
// stays and every turn has a think block. An empty block never comes and goes.

import { pythonLstrip, pythonStrip } from "../../python-semantics/index.ts";
import { type ChatTemplate, SegmentWriter } from "../chat-template.ts";
import { attribute, isTruthy } from "../template-values.ts";
import { endToken, startToken, writeSystem, writeToolCalls, writeToolResult, writeTurn } from "./parts.ts";
import { splitThinking } from "../split-thinking.ts";
import { lastQueryIndex, writeThinkingPrompt } from "./thinking.ts";

export const qwen3MilesFixed: ChatTemplate = ({ messages, tools, addGenerationPrompt, kwargs }) => {
  const writer = new SegmentWriter();
  writeSystem(writer, messages[0], tools);
  const clears = !kwargs.has("clear_thinking") || isTruthy(kwargs.get("clear_thinking"));
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
      writer.template(`${startToken}assistant\n`);
      if (!clears || index > lastQuery) {
        writer.template("<think>\n");
        writer.words(pythonStrip(split.reasoning, "\n"));
        writer.template("\n</think>\n\n");
        writer.words(pythonLstrip(split.content, "\n"));
      } else {
        writer.words(split.content);
      }
      writeToolCalls(writer, attribute(message, "tool_calls"), split.content);
      writer.template(`${endToken}\n`);
    } else if (role === "tool") {
      writeToolResult(writer, messages, index, text);
    }
  });
  if (addGenerationPrompt) writeThinkingPrompt(writer, kwargs);
  return writer.finish();
};
