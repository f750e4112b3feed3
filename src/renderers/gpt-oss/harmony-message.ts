// An action of gpt-oss in the shape that its template reads. The template refuses channel tags in contents, so what was sampled
// is read first: thinking, words and one call each have their own place.

import { type AssistantMessage, type Message, type Tool, toolFromDefinition } from "../../core/index.ts";
import type { JsonObject } from "../../python-semantics/json/index.ts";
import { reasoningParser, toolCallParser } from "../../parsers/index.ts";
import { wireMessage } from "../wire-message.ts";

/** Parsers look for nothing when there are no tools; calls of any name are let through. */
const anyTool: readonly Tool[] = [toolFromDefinition(new Map([["function", new Map([["name", "any"]])]]))];

export function readHarmonyAction(message: AssistantMessage): AssistantMessage {
  const { content } = message;
  if (message.toolCalls.length > 0 || !content.includes("<|channel|>")) return message;
  // The prompt opened the message, and the stop token that closed it is not part of the text.
  const end = isCall(content) ? "<|call|>" : "<|return|>";
  const { reasoning, normalText } = reasoningParser("gpt-oss").split(`<|start|>assistant${content}${end}`);
  const { calls, normalText: words } = toolCallParser("gpt-oss").parse(normalText, {
    tools: anyTool,
    forwardUnknownTools: true,
  });
  return {
    role: "assistant",
    content: calls.length === 0 ? words : "",
    reasoning: reasoning === "" ? null : reasoning,
    toolCalls: calls.map(({ name, parameters }, index) => ({
      id: `call_${index}`,
      name: name ?? "",
      argumentsText: parameters,
    })),
  };
}

/** True when the last block is a call. */
function isCall(content: string): boolean {
  const header = content.slice(content.lastIndexOf("<|channel|>"), content.lastIndexOf("<|message|>"));
  return header.includes(" to=");
}

export function harmonyMessage(message: Message): JsonObject {
  if (message.role !== "assistant") return wireMessage(message);
  const read = readHarmonyAction(message);
  const wire = wireMessage({ ...read, reasoning: null });
  if (read.reasoning !== null) wire.set("thinking", read.reasoning);
  return wire;
}
