// Datasets of messages: supervised rows and preference pairs. A conversation as chat datasets hold it: OpenAI's messages, tool calls in their parts. An episode's own messages hold
// actions as they were sampled, markers and thinking included; those are for the template of one model family, these for
// any. An action whose calls were not carried out as written stays as it was sampled: parts would invent a call.

import type { Episode, EpisodeEvent, Message, ToolCall } from "../core/index.ts";
import { columns, double, json, messageList, orNull, type RowOf, string } from "./columns.ts";
import { type ExportOrigin, episodeFacts, type EpisodeFacts } from "./samples.ts";

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

/** The episode's messages with its actions in their parts. Examples that a strategy shows stay text of the opening. */
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
  // A text strategy's call is part of its text; a call that was not carried out stands in the text alone.
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

const toolsMeaning = "JSON text of the tools that the template shows; null where none are shown or known";

/**
 * Supervised training on messages: the conversation with its tool calls in their parts, and the tools. What a template makes of
 * it is the trainer's; for the very tokens that were sampled take `sft-tokens`.
 */
export const sftColumns = columns({
  messages: messageList<ChatMessage>(),
  tools: orNull(string(toolsMeaning)),
  reward: orNull(double()),
  metadata: json<EpisodeFacts>(),
});

export type SftRow = RowOf<typeof sftColumns>;

export function toSftRow(origin: Omit<ExportOrigin, "groupMean" | "sampleCount">, tools: string | null): SftRow {
  const { opening, rest } = conversationOf(origin.episode);
  return {
    messages: [...opening, ...rest],
    tools,
    reward: origin.episode.reward,
    metadata: episodeFacts(origin),
  };
}

/**
 * Pairs for preference training (DPO and kin): the best and the worst of the episodes of a group that began with the same
 * messages. Not per turn: after the first action two episodes have seen different things, so a pair compares what came of one
 * beginning, tool results and users' utterances included.
 */
export const preferenceColumns = columns({
  prompt: messageList<ChatMessage>("the common beginning"),
  chosen: messageList<ChatMessage>(),
  rejected: messageList<ChatMessage>(),
  score_chosen: double(),
  score_rejected: double(),
  tools: orNull(string(toolsMeaning)),
  metadata: json<PreferenceFacts>(),
});

export type PreferenceRow = RowOf<typeof preferenceColumns>;

export type PreferenceFacts = Pick<EpisodeFacts, "run" | "environment" | "split" | "task_id" | "group_id"> & {
  readonly chosen_episode_id: string;
  readonly rejected_episode_id: string;
  /** Episodes that began alike. */
  readonly candidates: number;
};

type Candidate = {
  readonly origin: ExportOrigin;
  readonly reward: number;
  readonly prompt: readonly ChatMessage[];
  readonly rest: readonly ChatMessage[];
};

/**
 * The pairs of one group: one for each beginning that at least two graded episodes share with different rewards. Of equal
 * rewards the first in the group is taken, so that the same run gives the same pairs.
 */
export function toPreferenceRows(
  origins: readonly ExportOrigin[],
  toolsOf: (origin: ExportOrigin) => string | null,
): PreferenceRow[] {
  const byBeginning = new Map<string, Candidate[]>();
  for (const origin of origins) {
    const { reward } = origin.episode;
    const { opening, rest } = conversationOf(origin.episode);
    if (reward === null || rest.length === 0) continue;
    const key = JSON.stringify(opening);
    const alike = byBeginning.get(key) ?? [];
    byBeginning.set(key, alike);
    alike.push({ origin, reward, prompt: opening, rest });
  }
  return [...byBeginning.values()].flatMap((alike) => {
    const best = alike.reduce((one, other) => (other.reward > one.reward ? other : one));
    const worst = alike.reduce((one, other) => (other.reward < one.reward ? other : one));
    return best.reward > worst.reward ? [pairOf(best, worst, { candidates: alike.length, toolsOf })] : [];
  });
}

function pairOf(
  best: Candidate,
  worst: Candidate,
  options: { readonly candidates: number; readonly toolsOf: (origin: ExportOrigin) => string | null },
): PreferenceRow {
  const { run, environment, split, task_id, group_id, episode_id } = episodeFacts(best.origin);
  return {
    prompt: best.prompt,
    chosen: best.rest,
    rejected: worst.rest,
    score_chosen: best.reward,
    score_rejected: worst.reward,
    tools: options.toolsOf(best.origin),
    metadata: {
      run,
      environment,
      split,
      task_id,
      group_id,
      chosen_episode_id: episode_id,
      rejected_episode_id: worst.origin.episode.id,
      candidates: options.candidates,
    },
  };
}
