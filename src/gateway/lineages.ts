// The lineages of a session: which of its conversations belong to one agent, and which agent started
// which. The ids of the program decide where it sends any (`client-agents.ts`); otherwise the record
// does: a conversation that begins with the text of a call belongs to a sub-agent of the conversation
// that made the call, and so does one whose last answer comes back as a result.

import type { EpisodeEvent, Lineage, Message, ToolCall } from "../core/index.ts";
import type { Steps } from "../lib/steps.ts";
import { type JsonValue, parseJson } from "../python-semantics/json/index.ts";

type Exchange = Extract<EpisodeEvent, { readonly type: "exchange" }>;

/** A conversation: calls of which each continues an earlier one, or sends its beginning again. */
type Conversation = {
  readonly calls: Exchange[];
  readonly hasTools: boolean;
};

/** An agent that is being assembled. */
type Agent = {
  /** The program's id; `null` if it sent none. */
  readonly name: string | null;
  parent: Agent | null;
  readonly conversations: Conversation[];
  isSide: boolean;
};

/** Shorter texts say nothing about where they come from. */
const shortest = 8;
/**
 * Number of conversations, or of calls before the first and after the last of a conversation, in which
 * its beginning and its result are searched for.
 */
const reach = 64;

/** The lineages of the calls of one session since its program last began; empty without calls. */
export function* lineagesOf(events: readonly EpisodeEvent[]): Steps<readonly Lineage[]> {
  const begun = events.findLastIndex((event) => event.type === "session");
  const calls = events
    .slice(begun + 1)
    .filter((event) => event.type === "exchange")
    .sort((one, other) => one.call - other.call);
  const conversations = yield* conversationsOf(calls);
  const agents = agentsOf(conversations);
  const ownerOf = new Map(
    agents.flatMap((agent) =>
      agent.conversations.flatMap(({ calls: own }) => own.map((call) => [call, agent] as const)),
    ),
  );
  for (const [at, agent] of agents.entries()) {
    yield;
    if (agent.parent === null && agent.conversations[0]!.calls[0]!.client === undefined)
      agent.parent = startedBy(agent, calls, ownerOf);
    // An agent begins after the one that started it; ids may say otherwise. A title may be asked for first.
    if (!agent.isSide && agent.parent !== null && agents.indexOf(agent.parent) >= at) agent.parent = null;
  }
  const main = agents.find(
    ({ parent, isSide, conversations: [first] }) => !isSide && parent === null && first!.hasTools,
  );
  const chief = main ?? agents.find(({ parent }) => parent === null) ?? agents[0];
  const ids = new Map(agents.map((agent, at) => [agent, at + 1]));
  return agents.map((agent) => {
    const parent = agent === chief || agent.parent === null ? null : ids.get(agent.parent)!;
    return {
      id: ids.get(agent)!,
      kind: agent === chief ? "main" : agent.isSide || parent === null ? "side" : "sub-agent",
      parent,
      agent: agent.name,
      turns: agent.conversations
        .flatMap((conversation) => conversation.calls.map(({ turn }) => turn))
        .sort((one, other) => one - other),
    };
  });
}

/** The last turn of the main lineage; `null` without lineages. */
export function lastMainTurn(lineages: readonly Lineage[]): number | null {
  return lineages.find(({ kind }) => kind === "main")?.turns.at(-1) ?? null;
}

function* conversationsOf(calls: readonly Exchange[]): Steps<readonly Conversation[]> {
  const found: Conversation[] = [];
  const byTurn = new Map<number, Conversation>();
  for (const call of calls) {
    yield;
    const { basis, continues, tools } = call;
    const before = byTurn.get(basis ?? continues ?? -1);
    // A program that numbers its agents may begin one with the history of another.
    const isSame = before !== undefined && before.calls[0]!.client?.agent === call.client?.agent;
    let conversation = isSame ? before : found.slice(-reach).findLast((one) => beginsLike(call, one.calls[0]!));
    if (conversation === undefined) {
      const inherited = before !== undefined && tools === null ? before.hasTools : (tools ?? []).length > 0;
      conversation = { calls: [], hasTools: inherited };
      found.push(conversation);
    }
    conversation.calls.push(call);
    byTurn.set(call.turn, conversation);
  }
  return found;
}

/** True if a whole conversation that was sent is another one's beginning, with or without what followed. */
function beginsLike(call: Exchange, first: Exchange): boolean {
  if (call.basis !== null || first.basis !== null || call.client?.agent !== first.client?.agent) return false;
  const [sent, known] = [call, first].map(({ messages }) => messages.filter(({ role }) => role !== "system")) as [
    Message[],
    Message[],
  ];
  if (sent.length < known.length || !known.every((message, at) => isEqual(message, sent[at]!))) return false;
  if (sent.length === known.length) return systemOf(call) === systemOf(first);
  const answer = sent[known.length]!;
  if (answer.role !== "assistant") return false;
  const isCall = first.action.toolCalls.length > 0;
  return isCall
    ? answer.toolCalls[0]?.name === first.action.toolCalls[0]!.name
    : isEqualText(answer.content, first.action.content);
}

function isEqual(one: Message, other: Message): boolean {
  return one.role === other.role && isEqualText(one.content, other.content);
}

function isEqualText(one: string, other: string): boolean {
  return one.trim() === other.trim();
}

function systemOf({ messages }: Exchange): string {
  return messages.flatMap(({ role, content }) => (role === "system" ? [content] : [])).join("\n");
}

/**
 * Joins the conversations of one id, apart from requests beside the work: those without tools where the
 * agent has some.
 */
function agentsOf(conversations: readonly Conversation[]): readonly Agent[] {
  const agents: Agent[] = [];
  const byName = new Map<string, Agent>();
  const withTools = new Set(
    conversations.flatMap(({ calls, hasTools }) => (hasTools ? [calls[0]!.client?.agent] : [])),
  );
  for (const conversation of conversations) {
    const client = conversation.calls[0]!.client ?? null;
    const known = client === null ? undefined : byName.get(client.agent);
    const isSide = client !== null && !conversation.hasTools && withTools.has(client.agent);
    if (known !== undefined && !isSide) {
      known.conversations.push(conversation);
      continue;
    }
    const agent: Agent = { name: client?.agent ?? null, parent: null, conversations: [conversation], isSide };
    agents.push(agent);
    if (client !== null && !isSide) byName.set(client.agent, agent);
  }
  for (const agent of agents) {
    if (agent.name === null) continue;
    const named = agent.isSide
      ? agent.name
      : agent.conversations.flatMap(({ calls: [first] }) => first!.client?.parent ?? [])[0];
    agent.parent = (named === undefined ? undefined : byName.get(named)) ?? null;
  }
  return agents;
}

/** The agent whose call began a conversation, or whose next prompt holds its last answer; `null` for none. */
function startedBy(agent: Agent, calls: readonly Exchange[], ownerOf: ReadonlyMap<Exchange, Agent>): Agent | null {
  const own = agent.conversations.flatMap((conversation) => conversation.calls);
  const [begin, end] = [calls.indexOf(own[0]!), calls.lastIndexOf(own.at(-1)!) + 1];
  const asked = own[0]!.messages.findLast(({ role }) => role === "user")?.content ?? "";
  const isAsked = (text: string): boolean => text.length >= shortest && asked.includes(text);
  const spawning = calls
    .slice(Math.max(0, begin - reach), begin)
    .findLast(({ action }) => action.toolCalls.some((call) => textsIn(argumentsOf(call)).some(isAsked)));
  if (spawning !== undefined) return ownerOf.get(spawning) ?? null;
  const answer = own.at(-1)!.action.content.trim();
  if (answer.length < shortest) return null;
  const reading = calls
    .slice(end, end + reach)
    .find(({ messages }) =>
      messages.some(({ role, content }) => (role === "tool" || role === "user") && content.includes(answer)),
    );
  return reading === undefined ? null : (ownerOf.get(reading) ?? null);
}

/** `null` if they cannot be read. */
function argumentsOf({ argumentsText }: ToolCall): JsonValue {
  try {
    return parseJson(argumentsText);
  } catch {
    return null;
  }
}

/** The texts in a value, trimmed. */
function textsIn(value: JsonValue): string[] {
  if (typeof value === "string") return [value.trim()];
  if (Array.isArray(value)) return value.flatMap((one: JsonValue) => textsIn(one));
  return value instanceof Map ? [...value.values()].flatMap((one) => textsIn(one)) : [];
}
