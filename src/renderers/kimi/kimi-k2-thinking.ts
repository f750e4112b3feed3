// The chat template of Kimi-K2-Thinking, as it is published: thinking of turns up to the first answer without calls is emptied,
// and structured calls end in a security error, because the template changes a list where Jinja's sandbox forbids it.

import { type ChatTemplate, ChatTemplateError, SegmentWriter } from "../chat-template.ts";
import type { JsonValue } from "../../python-semantics/json/index.ts";
import { attribute, isTruthy, iterate, printed, textOperand, type TemplateValue } from "../template-values.ts";
import { writeContent, writeTools } from "./kimi-k2.ts";

const endToken = "<|im_end|>";

export const kimiK2Thinking: ChatTemplate = ({ messages, tools, addGenerationPrompt }) => {
  const writer = new SegmentWriter();
  const firstAnswer = messages.findIndex(
    (message) => attribute(message, "role") === "assistant" && !isTruthy(attribute(message, "tool_calls")),
  );
  if (isTruthy(tools)) writeTools(writer, tools);
  if (messages.length === 0 || attribute(messages[0], "role") !== "system") {
    writer.template(`<|im_system|>system<|im_middle|>You are Kimi, an AI assistant created by Moonshot AI.${endToken}`);
  }
  messages.forEach((message, index) => {
    writer.begin(index);
    const role = attribute(message, "role");
    const name = attribute(message, "name");
    writer.template(openingToken(role));
    if (isTruthy(name)) writer.words(printed(name));
    else writer.template(printed(role));
    writer.template("<|im_middle|>");
    const content = attribute(message, "content");
    if (role === "assistant") {
      writer.template("<think>");
      if (index > firstAnswer) writer.words(printed(attribute(message, "reasoning_content")));
      writer.template("</think>");
      writeContent(writer, content === null ? "" : content);
      const calls = attribute(message, "tool_calls");
      if (isTruthy(calls)) refuseCalls(calls);
    } else if (role === "tool") {
      writer.template("## Return of functions.");
      writer.words(textOperand(name === undefined ? "unknown" : name));
      writer.template(":0\n");
      writeContent(writer, content === null ? "" : content);
    } else if (content !== null) {
      writeContent(writer, content);
    }
    writer.template(endToken);
  });
  writer.begin(null);
  if (addGenerationPrompt) writer.template("<|im_assistant|>assistant<|im_middle|>");
  return writer.finish();
};

function openingToken(role: TemplateValue): string {
  if (role === "user") return "<|im_user|>";
  return role === "assistant" ? "<|im_assistant|>" : "<|im_system|>";
}

/** The template appends the id of the first call to a list, which the sandbox refuses. */
function refuseCalls(calls: JsonValue | undefined): void {
  for (const call of iterate(calls)) {
    textOperand(attribute(attribute(call, "function"), "name"));
    throw new ChatTemplateError(
      "security",
      "Cannot render tool calls with this chat template: it changes a list, which the sandbox of chat templates forbids.",
    );
  }
}
