// Our messages in the OpenAI wire shape that chat templates read.

import type { Message, ToolCall } from "../core/index.ts";
import { type JsonObject, JsonSyntaxError, type JsonValue, parseJson } from "../python-semantics/json/index.ts";

/** Absent parts are left out: templates tell a missing key from a null. */
export function wireMessage(message: Message): JsonObject {
  const wire: JsonObject = new Map<string, JsonValue>([
    ["role", message.role],
    ["content", message.content],
  ]);
  if (message.role === "assistant") {
    if (message.reasoning !== null) wire.set("reasoning_content", message.reasoning);
    if (message.toolCalls.length > 0) wire.set("tool_calls", message.toolCalls.map(wireCall));
  }
  if (message.role === "tool") {
    wire.set("name", message.name);
    if (message.callId !== null) wire.set("tool_call_id", message.callId);
  }
  return wire;
}

/** Servers decode the arguments before a template sees them; text that is no JSON stays text. */
function wireCall(call: ToolCall): JsonObject {
  const body: JsonObject = new Map<string, JsonValue>([
    ["name", call.name],
    ["arguments", decodeArguments(call.argumentsText)],
  ]);
  return new Map<string, JsonValue>([
    ["id", call.id],
    ["type", "function"],
    ["function", body],
  ]);
}

function decodeArguments(text: string): JsonValue {
  try {
    return parseJson(text);
  } catch (error) {
    if (error instanceof JsonSyntaxError) return text;
    throw error;
  }
}
