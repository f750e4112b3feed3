// Messages and tools from the agent's side of a conversation. Not the wire format of any provider;
// the chat template of a model family decides how they are rendered.

import type { JsonObject, JsonValue } from "../python-semantics/json/value.ts";

/** One tool call that a policy wrote. */
export type ToolCall = {
  /** Unique within the episode, e.g. `call_3_0` (turn, place within the turn). */
  readonly id: string;
  readonly name: string;
  /** JSON text of the arguments as the parser reports it; never re-serialized. */
  readonly argumentsText: string;
};

export type SystemMessage = { readonly role: "system"; readonly content: string };
export type UserMessage = { readonly role: "user"; readonly content: string };
export type AssistantMessage = {
  readonly role: "assistant";
  /**
   * The text. In an episode's history this is the raw action, decoded, without its end token (tags,
   * calls and thinking included), `reasoning` is null and `toolCalls` is empty, so that the
   * template renders exactly the policy's text. An action of an API model is split into its parts,
   * with the calls that get an answer.
   */
  readonly content: string;
  readonly reasoning: string | null;
  readonly toolCalls: readonly ToolCall[];
};
export type ToolMessage = {
  readonly role: "tool";
  readonly content: string;
  readonly name: string;
  readonly callId: string | null;
};

export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage;

/** A tool that an environment offers. */
export type Tool = {
  readonly name: string;
  /** The whole OpenAI entry (`{"type": "function", "function": {...}}`), lossless: prompts render it byte for byte. */
  readonly definition: JsonObject;
};

/** Reads a tool from an OpenAI entry. Throws a plain error when it has no name. */
export function toolFromDefinition(definition: JsonObject): Tool {
  const body = definition.get("function");
  const name = body instanceof Map ? body.get("name") : undefined;
  if (typeof name !== "string") {
    throw new Error(
      'Cannot read a tool definition: "function.name" is missing; use the OpenAI form {"type": "function", "function": {"name": ...}}.',
    );
  }
  return { name, definition };
}

/** The JSON Schema of the tool's arguments; `null` when the definition has none. */
export function toolParameters(tool: Tool): JsonValue {
  const body = tool.definition.get("function");
  return body instanceof Map ? (body.get("parameters") ?? null) : null;
}
