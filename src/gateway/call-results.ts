// Matches tool results to calls. Clients number calls as they like: the same ids in every round,
// empty ids, one id for all. So ids are meaningful only within the latest round of calls, and if
// they are ambiguous, the order decides.

import type { AssistantMessage, Message, ToolMessage } from "../core/index.ts";

type Calls = AssistantMessage["toolCalls"];
type Call = Calls[number];

/**
 * Conversation with its results resolved: within a round ids are unique, every result has the id
 * and the name of the call that it answers, and results follow the order of their calls, which
 * templates without ids require.
 */
export function inCallOrder(messages: readonly Message[]): readonly Message[] {
  if (!messages.some(({ role }) => role === "tool")) return messages;
  const ordered: Message[] = [];
  let round: Round = new Round([]);
  const earlier = new Map<string, string>();
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at]!;
    if (message.role !== "tool") {
      ordered.push(message);
      if (message.role !== "assistant") continue;
      for (const { id, name } of round.calls) earlier.set(id, name);
      const toolCalls = withUniqueIds(message.toolCalls);
      if (toolCalls !== message.toolCalls) ordered[ordered.length - 1] = { ...message, toolCalls };
      round = new Round(toolCalls, message.toolCalls);
      continue;
    }
    const results: ToolMessage[] = [];
    for (let next = messages[at]; next?.role === "tool"; next = messages[++at]) results.push(next);
    at--;
    for (const { result, call } of round.answer(results)) {
      if (call !== null) ordered.push({ ...result, callId: call.id, name: call.name });
      else ordered.push({ ...result, name: earlier.get(result.callId ?? "") ?? result.name });
    }
  }
  return ordered;
}

/**
 * Splits one assistant message into two steps. A client may merge several steps of the assistant
 * into one message, as though their calls had been made together (Mastra does for steps without
 * text). The message at `at` becomes its text with the first `count` calls, their results, and a
 * second message with the other calls. `messages`: with their results resolved. Returns `null` if
 * the message at `at` cannot be split like that.
 */
export function takenApart(messages: readonly Message[], at: number, count: number): readonly Message[] | null {
  const message = messages[at];
  if (message?.role !== "assistant" || message.toolCalls.length <= count) return null;
  const results = messages.slice(at + 1, at + 1 + count);
  const isAnswered = results.every((one, place) => one.role === "tool" && one.callId === message.toolCalls[place]!.id);
  if (results.length < count || !isAnswered) return null;
  return [
    ...messages.slice(0, at),
    { ...message, toolCalls: message.toolCalls.slice(0, count) },
    ...results,
    { ...message, content: "", reasoning: null, toolCalls: message.toolCalls.slice(count) },
    ...messages.slice(at + 1 + count),
  ];
}

/** The calls of one message, and the state of their answers. */
class Round {
  readonly calls: Calls;
  /** Indexes of unanswered calls, by the ids that the client gave them. */
  readonly #waiting = new Map<string, number[]>();
  readonly #isAnswered: boolean[];
  /** Index of the first call that may be unanswered. */
  #next = 0;

  constructor(calls: Calls, asSent: Calls = calls) {
    this.calls = calls;
    this.#isAnswered = calls.map(() => false);
    for (const [place, { id }] of asSent.entries()) {
      const places = this.#waiting.get(id);
      if (places === undefined) this.#waiting.set(id, [place]);
      else places.push(place);
    }
    for (const places of this.#waiting.values()) places.reverse();
  }

  /** Matches results to calls, in the order of the calls; results that answer no call come last. */
  answer(results: readonly ToolMessage[]): readonly { readonly result: ToolMessage; readonly call: Call | null }[] {
    const places = results.map(({ callId }) => this.#take(this.#waitingFor(callId ?? "")));
    const placed = results.map((result, at) => ({ result, place: places[at] ?? this.#take(this.#nextUnanswered()) }));
    const order = (place: number | null): number => place ?? this.calls.length;
    return placed
      .toSorted((a, b) => order(a.place) - order(b.place))
      .map(({ result, place }) => ({ result, call: place === null ? null : this.calls[place]! }));
  }

  #take(place: number | null): number | null {
    if (place !== null) this.#isAnswered[place] = true;
    return place;
  }

  /**
   * Index of the first waiting call with this id; calls that were answered by order are skipped.
   */
  #waitingFor(id: string): number | null {
    const places = this.#waiting.get(id) ?? [];
    for (let place = places.pop(); place !== undefined; place = places.pop()) {
      if (!this.#isAnswered[place]!) return place;
    }
    return null;
  }

  #nextUnanswered(): number | null {
    while (this.#isAnswered[this.#next] === true) this.#next++;
    return this.#next < this.calls.length ? this.#next : null;
  }
}

function withUniqueIds(calls: Calls): Calls {
  const ids = new Set(calls.map(({ id }) => id));
  if (ids.size === calls.length && !ids.has("")) return calls;
  return calls.map((call, place) => ({ ...call, id: `call_${place}` }));
}

/**
 * Gives calls that were sampled here the ids that they had in the answer, and their results the
 * same ids, even if the client renamed them. `sampled`: the calls of each sampled answer, keyed by
 * the index of its message. `messages`: with their results resolved.
 */
export function withSampledIds(messages: readonly Message[], sampled: ReadonlyMap<number, Calls>): readonly Message[] {
  let ids: ReadonlyMap<string, string> = new Map();
  return messages.map((message, at): Message => {
    if (message.role === "assistant") {
      const given = sampled.get(at) ?? message.toolCalls;
      ids = new Map(message.toolCalls.map(({ id }, place) => [id, given[place]?.id ?? id]));
      if (message.toolCalls.every(({ id }) => ids.get(id) === id)) return message;
      return { ...message, toolCalls: message.toolCalls.map((call) => ({ ...call, id: ids.get(call.id)! })) };
    }
    if (message.role !== "tool" || message.callId === null) return message;
    const callId = ids.get(message.callId) ?? message.callId;
    return callId === message.callId ? message : { ...message, callId };
  });
}
