// A conversation as chat datasets hold it: OpenAI's messages, tool calls in their parts. An episode's own messages hold
// actions as they were sampled, markers and thinking included; those are for the template of one model family, these for
// any. An action whose calls were not carried out as written stays as it was sampled: parts would invent a call.

import type { Episode, EpisodeEvent, Message, ToolCall } from "../core/index.ts";

export type ChatMessage = {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
  readonly reasoning_content: string | null;
  readonly tool_calls: readonly ChatToolCall[] | null;
  /** The call that a tool's message answers; `null` when it answers none that could be read. */
  readonly tool_call_id: string | null;
  /** Of the tool. */
  readonly name: string | null;
};

export type ChatToolCall = {
  readonly id: string;
  readonly type: "function";
  /** `arguments` is JSON text, as sampled. */
  readonly function: { readonly name: string; readonly arguments: string };
};

export type Conversation = {
  /** What stood before the first action. */
  readonly opening: readonly ChatMessage[];
  /** Actions and what came of each, from the first action on. */
  readonly rest: readonly ChatMessage[];
};

type DecisionEvent = Extract<EpisodeEvent, { readonly type: "decision" }>;

/** The episode's messages with its actions in their parts. Examples that a strategy shows stay words of the opening. */
export function conversationOf(episode: Episode): Conversation {
  const decisions = episode.events.filter((event) => event.type === "decision");
  const start = openingLength(episode.messages, decisions.length);
  const later = episode.messages.slice(start);
  let next = 0;
  return {
    opening: episode.messages.slice(0, start).map(plainMessage),
    rest: later.map((message) => {
      const decided = message.role === "assistant" ? decisions[next++] : undefined;
      return decided === undefined ? plainMessage(message) : actionMessage(decided);
    }),
  };
}

/** Actions and observations take turns at the end, so the opening is what is left. */
export function openingLength(messages: readonly Message[], actions: number): number {
  if (actions === 0) return messages.length;
  const observations = messages.at(-1)?.role === "assistant" ? actions - 1 : actions;
  return messages.length - actions - observations;
}

function actionMessage({ action, decision }: DecisionEvent): ChatMessage {
  const { content, reasoning, toolCalls, text } = action;
  const call = decision.type === "call" ? decision.call : null;
  const isOwnCall = toolCalls.some(
    ({ id, name, argumentsText }) => id === call?.id && name === call.name && argumentsText === call.argumentsText,
  );
  if (call !== null && isOwnCall) return messageOf("assistant", content, { reasoning, calls: [chatCall(call)] });
  // A text strategy's call stands in its words; a call that was not carried out stands in the text alone.
  return toolCalls.length > 0 ? messageOf("assistant", text) : messageOf("assistant", content, { reasoning });
}

function chatCall(call: ToolCall): ChatToolCall {
  return { id: call.id, type: "function", function: { name: call.name, arguments: call.argumentsText } };
}

function plainMessage(message: Message): ChatMessage {
  const { role, content } = message;
  switch (role) {
    case "assistant":
      return messageOf(role, content, { reasoning: message.reasoning, calls: message.toolCalls.map(chatCall) });
    case "tool":
      return messageOf(role, content, { callId: message.callId, name: message.name });
    case "system":
    case "user":
      return messageOf(role, content);
    default:
      return role satisfies never;
  }
}

function messageOf(
  role: ChatMessage["role"],
  content: string,
  parts: {
    readonly reasoning?: string | null;
    readonly calls?: readonly ChatToolCall[];
    readonly callId?: string | null;
    readonly name?: string;
  } = {},
): ChatMessage {
  const { reasoning = null, calls = [], callId = null, name = null } = parts;
  const tool_calls = calls.length === 0 ? null : calls;
  return { role, content, reasoning_content: reasoning, tool_calls, tool_call_id: callId, name };
}
