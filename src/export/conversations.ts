// Datasets of messages: supervised rows and preference pairs. A conversation is in the form of chat
// datasets: OpenAI's messages, with tool calls in their parts. An episode's own messages hold
// actions as they were sampled, markers and thinking included; those are for the template of one
// model family, these for any. An action whose calls were not carried out as written stays as it
// was sampled: parts would invent a call.

import { callsOf, type Episode, type EpisodeEvent, type Message, type ToolCall } from "../core/index.ts";
import { columns, double, json, messageList, orNull, type RowOf, string } from "./columns.ts";
import { type ExportOrigin, episodeDigests, episodeFacts, type EpisodeFacts } from "./samples.ts";

export type ChatMessage = {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
  readonly reasoning_content: string | null;
  readonly tool_calls: readonly ChatToolCall[] | null;
  /** Id of the call that a tool message answers; `null` if that call could not be read. */
  readonly tool_call_id: string | null;
  /** Name of the tool. */
  readonly name: string | null;
};

export type ChatToolCall = {
  readonly id: string;
  readonly type: "function";
  /** `arguments` is JSON text, as sampled. */
  readonly function: { readonly name: string; readonly arguments: string };
};

export type Conversation = {
  /** Messages before the first action. */
  readonly opening: readonly ChatMessage[];
  /** Actions, each followed by its observations, from the first action on. */
  readonly rest: readonly ChatMessage[];
};

type DecisionEvent = Extract<EpisodeEvent, { readonly type: "decision" }>;

/**
 * The episode's messages, with its actions split into parts. Examples that a strategy shows stay
 * text of the opening.
 */
export function conversationOf(episode: Episode): Conversation {
  const exchanges = new Map(exchangePlaces(episode));
  const decisions = episode.events.filter((event) => event.type === "decision");
  const start = actionPlaces(episode)[0] ?? episode.messages.length;
  const later = episode.messages.slice(start);
  let next = 0;
  return {
    opening: episode.messages.slice(0, start).map(plainMessage),
    rest: later.map((message, at) => {
      const exchange = exchanges.get(start + at);
      if (exchange !== undefined) return exchangeMessage(exchange);
      const decided = message.role === "assistant" ? decisions[next++] : undefined;
      return decided === undefined ? plainMessage(message) : actionMessage(decided);
    }),
  };
}

/**
 * Indexes of the decided actions in the messages. Actions and their observations alternate at the
 * end, so the rest is the opening; the last action may have no observation.
 */
export function actionPlaces({ events, messages }: Pick<Episode, "events" | "messages">): readonly number[] {
  const answered = exchangePlaces({ events });
  if (answered.length > 0) return answered.map(([place]) => place);
  const places: number[] = [];
  let place = messages.length;
  for (const event of events.toReversed()) {
    if (event.type !== "decision") continue;
    const { decision } = event;
    const isObserved = places.length > 0 || messages.at(-1)?.role !== "assistant";
    place -= 1 + (isObserved ? Math.max(callsOf(decision).length, 1) : 0);
    places.push(place);
  }
  return places.toReversed();
}

type ExchangeEvent = Extract<EpisodeEvent, { readonly type: "exchange" }>;

/**
 * The answers in the last conversation of an outside program, or of its main agent if it had several,
 * which is the one in the episode's messages, and their places there.
 */
export function exchangePlaces({ events }: Pick<Episode, "events">): readonly (readonly [number, ExchangeEvent])[] {
  const byTurn = new Map(events.flatMap((event) => (event.type === "exchange" ? [[event.turn, event] as const] : [])));
  const conversation: ExchangeEvent[] = [];
  const lineages = events.flatMap((event) => (event.type === "lineages" ? event.lineages : []));
  const main = lineages.find(({ kind }) => kind === "main");
  let at = main === undefined ? [...byTurn.values()].at(-1) : byTurn.get(main.turns.at(-1)!);
  for (; at !== undefined; at = at.basis === null ? undefined : byTurn.get(at.basis)) conversation.push(at);
  let place = -1;
  return conversation.toReversed().map((exchange) => [(place += exchange.messages.length + 1), exchange] as const);
}

/** The tools of that conversation. `null` if the episode is not one of an outside program. */
export function toolsOfSession({ events }: Pick<Episode, "events">): ExchangeEvent["tools"] {
  if (!events.some(({ type }) => type === "session")) return null;
  return exchangePlaces({ events }).findLast(([, { tools }]) => tools !== null)?.[1].tools ?? [];
}

function exchangeMessage({ action: { content, reasoning, toolCalls } }: ExchangeEvent): ChatMessage {
  return assistantMessage(content, reasoning, toolCalls);
}

function actionMessage({ action, decision }: DecisionEvent): ChatMessage {
  const { content, reasoning, toolCalls, text } = action;
  const calls = decision.type === "call" || decision.type === "calls" ? callsOf(decision) : [];
  const own = calls.flatMap(({ call }) =>
    toolCalls.some(
      ({ id, name, argumentsText }) => id === call?.id && name === call.name && argumentsText === call.argumentsText,
    )
      ? call!
      : [],
  );
  if (own.length > 0 && own.length === calls.length) return assistantMessage(content, reasoning, own);
  // A text strategy's call is part of its text, and a call that was not carried out appears only in
  // the text.
  return toolCalls.length > 0 ? assistantMessage(text, null, []) : assistantMessage(content, reasoning, []);
}

const noParts = { reasoning_content: null, tool_calls: null, tool_call_id: null, name: null };

function assistantMessage(content: string, reasoning: string | null, calls: readonly ToolCall[]): ChatMessage {
  const tool_calls = calls.map(({ id, name, argumentsText }): ChatToolCall => {
    return { id, type: "function", function: { name, arguments: argumentsText } };
  });
  const parts = { reasoning_content: reasoning, tool_calls: calls.length === 0 ? null : tool_calls };
  return { role: "assistant", content, ...noParts, ...parts };
}

function plainMessage(message: Message): ChatMessage {
  const { role, content } = message;
  if (role === "assistant") return assistantMessage(content, message.reasoning, message.toolCalls);
  const answer = role === "tool" ? { tool_call_id: message.callId, name: message.name } : {};
  return { role, content, ...noParts, ...answer };
}

const toolsMeaning = "JSON text of the tools that the template shows; null where none are shown or known";

/**
 * Supervised training on messages: the conversation with its tool calls in their parts, and the
 * tools. The trainer's template renders them; for exactly the sampled tokens use `sft-tokens`.
 */
export const sftColumns = columns({
  messages: messageList<ChatMessage>(),
  tools: orNull(string(toolsMeaning)),
  reward: orNull(double()),
  metadata: json<EpisodeFacts & { readonly turn_digests: ReturnType<typeof episodeDigests> }>(),
});

export type SftRow = RowOf<typeof sftColumns>;

export function toSftRow(origin: Omit<ExportOrigin, "groupMean" | "sampleCount">, tools: string | null): SftRow {
  const { opening, rest } = conversationOf(origin.episode);
  return {
    messages: [...opening, ...rest],
    tools,
    reward: origin.episode.reward,
    metadata: { ...episodeFacts(origin), turn_digests: episodeDigests(origin.episode) },
  };
}

/**
 * Pairs for preference training (DPO and similar): the best and the worst of the episodes of a
 * group that began with the same messages. Not per turn: after the first action two episodes have
 * seen different things, so a pair compares the results of one beginning, tool results and users'
 * utterances included.
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
  /** Number of episodes with this beginning. */
  readonly candidates: number;
  /** Those of both episodes, the chosen one first. */
  readonly turn_digests: readonly {
    readonly episode_id: string;
    readonly turn: number;
    readonly digest: string;
  }[];
};

/**
 * The pairs of one group: one for each beginning that at least two graded episodes share with
 * different rewards. If several have the best or worst reward, the first in the group is used, so
 * that the same run gives the same pairs.
 */
export function toPreferenceRows(
  origins: readonly ExportOrigin[],
  toolsOf: (origin: ExportOrigin) => string | null,
): PreferenceRow[] {
  const candidates = origins.flatMap((origin) => {
    const { reward } = origin.episode;
    const { opening, rest } = conversationOf(origin.episode);
    return reward === null || rest.length === 0
      ? []
      : [{ origin, reward, opening, rest, key: JSON.stringify(opening) }];
  });
  return [...new Set(candidates.map(({ key }) => key))].flatMap((key) => {
    const alike = candidates.filter((candidate) => candidate.key === key);
    const best = alike.reduce((one, other) => (other.reward > one.reward ? other : one));
    const worst = alike.reduce((one, other) => (other.reward < one.reward ? other : one));
    if (best.reward === worst.reward) return [];
    const { run, environment, split, task_id, group_id, episode_id } = episodeFacts(best.origin);
    const turn_digests = [best, worst].flatMap(({ origin: { episode } }) =>
      episodeDigests(episode).map((one) => ({ episode_id: episode.id, ...one })),
    );
    const facts = { run, environment, split, task_id, group_id, chosen_episode_id: episode_id };
    return {
      prompt: best.opening,
      chosen: best.rest,
      rejected: worst.rest,
      score_chosen: best.reward,
      score_rejected: worst.reward,
      tools: toolsOf(best.origin),
      metadata: { ...facts, rejected_episode_id: worst.origin.episode.id, candidates: alike.length, turn_digests },
    };
  });
}
