// Messages and tools in the shape of OpenAI's chat completions. What a model said comes back to its server as history, so
// names and arguments that servers refuse are made harmless here: a mistake of the model must not end the conversation.

import type { ToolCall, Tool } from "../core/index.ts";
import { type JsonObject, JsonSyntaxError, parseJson, toPlain } from "../python-semantics/json/index.ts";
import type { ChatMessage } from "./chat-model.ts";

export function openAiMessages(messages: readonly ChatMessage[]): object[] {
  return messages.map((message) => {
    if (message.role === "tool") {
      const { callId, name, content } = message;
      // Servers refuse a result without its call; feedback on words that were no call is such a one.
      if (callId === null) return { role: "user", content };
      return { role: "tool", tool_call_id: callId, name: safeName(name), content };
    }
    const { role, content } = message;
    const calls = "toolCalls" in message ? message.toolCalls : [];
    if (calls.length === 0) return { role, content };
    const tool_calls = calls.map((call) => ({
      id: call.id,
      type: "function",
      function: { name: safeName(call.name), arguments: argumentsOf(call) === null ? "{}" : call.argumentsText },
    }));
    return { role, content: content === "" ? null : content, tool_calls };
  });
}

export function openAiTools(tools: readonly Tool[]): unknown[] {
  return tools.map(({ definition }) => toPlain(definition));
}

/** The name as providers allow it. */
export function safeName(name: string): string {
  return name.replaceAll(/[^A-Za-z0-9_-]/g, "_").slice(0, 64) || "unknown";
}

/** `null` when the text is no JSON object. */
export function argumentsOf({ argumentsText }: ToolCall): JsonObject | null {
  try {
    const value = parseJson(argumentsText);
    return value instanceof Map ? value : null;
  } catch (error) {
    if (error instanceof JsonSyntaxError) return null;
    throw error;
  }
}
