// What a session has seen and sampled, as a forest of conversations, and which of it a request continues. Histories are compared by
// meaning, because clients drop and rewrite everything else: role, text, names of tools, and arguments as JSON values count;
// ids, white space around an answer, reasoning, null or empty contents do not. Not a record of tokens: see `session.ts`.

import type { AssistantMessage, Message, ParsedAction, Tool, Turn } from "../core/index.ts";
import type { TokenBuffer } from "../core/token-buffer.ts";
import { finish, mapInSteps, type Steps } from "../lib/steps.ts";
import { dumpJson, type JsonValue, parseJson } from "../python-semantics/json/index.ts";
import type { ResponseFacts } from "./request.ts";

/** The tools of a request; equal ones are one object within a session. */
export type ToolSet = { readonly tools: readonly Tool[]; readonly key: string };

/** A sampled turn, where its conversation stands. */
export type SampledTurn = {
  readonly turn: Turn;
  readonly call: number;
  /** The turn whose conversation this one's messages follow; `null`: they are the whole conversation. */
  readonly basis: SampledTurn | null;
  /** What the client added to the basis, as it sent it. */
  readonly messages: readonly Message[];
  /** The same as it is rendered: answers in it that were sampled here are as they were sampled. */
  readonly rendered: readonly Message[];
  readonly tools: ToolSet;
  readonly action: ParsedAction;
  /** As the history has it: raw, so that a template renders what was sampled. */
  readonly answer: AssistantMessage;
  readonly response: ResponseFacts | null;
  /** Prompt and action; `null`: to be derived from the record. Of the first turn that continues it; others fork it. */
  buffer: TokenBuffer | null;
  /** A prompt grows in the buffer; another one forks it. */
  isClaimed: boolean;
  /** A recorded turn follows it. */
  isContinued: boolean;
  /** Its client has had the whole answer. */
  isDelivered: boolean;
  /** Tokens of prompt and action. */
  readonly length: number;
};

/** Where a request continues what is known. */
export type Continuation = {
  /** `null`: nothing sampled is continued. */
  readonly basis: SampledTurn | null;
  /** Messages of the request that the basis covers. */
  readonly covered: number;
  /** Leading messages that were seen before, in this order; `covered` or more. */
  readonly known: number;
  /** The conversation is known, with other tools. */
  readonly hasOtherTools: boolean;
  /** Answers among the known messages that were sampled here, by their place. */
  readonly sampled: ReadonlyMap<number, SampledTurn>;
};

/** What of a message counts when histories are compared. */
type MessageKey = { readonly kind: string; readonly text: string };

type Place = {
  /** By kind and text: a long text that is joined to its kind would be copied for every comparison. */
  next: Map<string, Map<string, Place>> | null;
  turns: SampledTurn[];
  /** The step that was taken last: comparing a long text is many times cheaper than hashing it. The only one while `next` is `null`. */
  recent: { readonly key: MessageKey; readonly place: Place } | null;
};

export class History {
  readonly #root = emptyPlace();
  /** Behind the answer of each turn. */
  readonly #places = new Map<SampledTurn, Place>();
  readonly #toolSets = new Map<string, ToolSet>();

  toolSet(tools: readonly Tool[]): ToolSet {
    const key = dumpJson(tools.map(({ definition }) => definition));
    const known = this.#toolSets.get(key);
    if (known !== undefined) return known;
    const made = { tools, key };
    this.#toolSets.set(key, made);
    return made;
  }

  /** `messages`: in order (see {@link inCallOrder}). */
  *find(messages: readonly Message[], tools: ToolSet): Steps<Continuation> {
    const keys = yield* messageKeys(messages);
    let place: Place | undefined = this.#root;
    let known = 0;
    let basis: SampledTurn | null = null;
    let covered = 0;
    let hasOtherTools = false;
    const sampled = new Map<number, SampledTurn>();
    for (let at = 0; at < keys.length; at++) {
      place = next(place, keys[at]!);
      if (place === undefined) break;
      known = at + 1;
      const last = place.turns.at(-1);
      if (last === undefined) continue;
      const found = choose(place.turns, messages[at]!, tools);
      sampled.set(at, found ?? last);
      if (found === null) hasOtherTools = true;
      else [basis, covered, hasOtherTools] = [found, at + 1, false];
    }
    return { basis, covered, known, hasOtherTools, sampled };
  }

  add(turn: SampledTurn): void {
    const { basis, messages, action } = turn;
    let place = (basis === null ? undefined : this.#places.get(basis)) ?? this.#root;
    // Results are told apart by the calls that they answer.
    const seen = basis === null ? messages : [seenAnswer(basis), ...messages];
    const keys = finish(messageKeys(seen)).slice(seen.length - messages.length);
    for (const key of keys) place = step(place, key);
    const [key, ...others] = answerKeys(action);
    const answered = step(place, key!);
    if (answered.turns === none) answered.turns = [turn];
    else answered.turns.push(turn);
    this.#places.set(turn, answered);
    // Another spelling of the same answer leads to the same conversations.
    for (const other of others) if (next(place, other) === undefined) lead(place, other, answered);
  }
}

/** Light: a request may open a hundred thousand. */
function emptyPlace(): Place {
  return { next: null, turns: none, recent: null };
}

const none: SampledTurn[] = [];

function next(place: Place, key: MessageKey): Place | undefined {
  const { recent } = place;
  if (recent !== null && recent.key.kind === key.kind && recent.key.text === key.text) return recent.place;
  const known = place.next?.get(key.kind)?.get(key.text);
  if (known !== undefined) place.recent = { key, place: known };
  return known;
}

function step(place: Place, key: MessageKey): Place {
  return next(place, key) ?? lead(place, key, emptyPlace());
}

function lead(place: Place, key: MessageKey, to: Place): Place {
  if (place.recent !== null) {
    place.next ??= mapOf(new Map(), place.recent);
    mapOf(place.next, { key, place: to });
  }
  place.recent = { key, place: to };
  return to;
}

function mapOf(
  next: Map<string, Map<string, Place>>,
  { key: { kind, text }, place }: NonNullable<Place["recent"]>,
): Map<string, Map<string, Place>> {
  const ofKind = next.get(kind);
  if (ofKind === undefined) next.set(kind, new Map([[text, place]]));
  else ofKind.set(text, place);
  return next;
}

/** Of turns whose answers look alike, the one whose call ids or reasoning the client echoes, else the latest. */
function choose(turns: readonly SampledTurn[], message: Message, tools: ToolSet): SampledTurn | null {
  const fitting = turns.filter((turn) => turn.tools === tools);
  if (fitting.length <= 1 || message.role !== "assistant") return fitting.at(-1) ?? null;
  const ids = message.toolCalls.map(({ id }) => id);
  return (
    fitting.findLast(({ action }) => ids.length > 0 && action.toolCalls.every(({ id }, place) => id === ids[place])) ??
    fitting.findLast(({ action }) => message.reasoning !== null && message.reasoning === action.reasoning) ??
    fitting.at(-1)!
  );
}

/** The conversation up to and including an answer, as it is rendered. */
export function conversationOf(turn: SampledTurn): Message[] {
  const turns: SampledTurn[] = [];
  for (let at: SampledTurn | null = turn; at !== null; at = at.basis) turns.push(at);
  const messages: Message[] = [];
  for (const { rendered, answer } of turns.reverse()) {
    for (const message of rendered) messages.push(message);
    messages.push(answer);
  }
  return messages;
}

/** The same up to the answer, as its client has it: answers by what it was told. */
export function seenPrompt(turn: SampledTurn): Message[] {
  const parts: (readonly Message[])[] = [turn.messages];
  for (let at = turn.basis; at !== null; at = at.basis) parts.push([...at.messages, seenAnswer(at)]);
  return parts.toReversed().flat();
}

export function seenAnswer({ action }: SampledTurn): AssistantMessage {
  return { role: "assistant", content: action.content, reasoning: null, toolCalls: action.toolCalls };
}

/** Results of one turn's calls in the order of the calls, whichever came back first. */
export function inCallOrder(messages: readonly Message[]): readonly Message[] {
  if (!messages.some((message, at) => message.role === "tool" && messages[at + 1]?.role === "tool")) return messages;
  const ordered = [...messages];
  let places = new Map<string, number>();
  for (let at = 0; at < ordered.length; at++) {
    const message = ordered[at]!;
    if (message.role === "assistant") places = new Map(message.toolCalls.map(({ id }, place) => [id, place]));
    if (message.role !== "tool" || ordered[at - 1]?.role === "tool") continue;
    let end = at;
    while (ordered[end]?.role === "tool") end++;
    const placeOf = (result: Message): number =>
      (result.role === "tool" && result.callId !== null ? places.get(result.callId) : undefined) ?? places.size;
    const results = ordered.slice(at, end).toSorted((a, b) => placeOf(a) - placeOf(b));
    for (const [place, result] of results.entries()) ordered[at + place] = result;
  }
  return ordered;
}

function messageKeys(messages: readonly Message[]): Steps<MessageKey[]> {
  let places: ReadonlyMap<string, number> = new Map();
  return mapInSteps(messages, (message) => {
    switch (message.role) {
      case "system":
      case "user":
        return { kind: message.role, text: message.content };
      case "assistant":
        places = new Map(message.toolCalls.map(({ id }, place) => [id, place]));
        return answerKey(message.content, message.toolCalls);
      case "tool":
        return {
          kind: `tool ${(message.callId === null ? undefined : places.get(message.callId)) ?? -1}`,
          text: message.content,
        };
      default:
        return message satisfies never;
    }
  });
}

function answerKeys({ content, text, toolCalls }: ParsedAction): readonly MessageKey[] {
  const key = answerKey(content, toolCalls);
  // A dialect that cannot write a call gives its client the text.
  return toolCalls.length === 0 || text === content ? [key] : [key, answerKey(text, [])];
}

function answerKey(
  content: string,
  calls: readonly { readonly name: string; readonly argumentsText: string }[],
): MessageKey {
  const said = content.trim();
  if (calls.length === 0) return { kind: "assistant", text: said };
  const called = calls.map(({ name, argumentsText }) => `\u0000${name}\u0000${canonical(argumentsText)}`).join("");
  return { kind: "assistant", text: said + called };
}

/** Equal for equal JSON values, large integers included; text that is no JSON stays as it is. */
function canonical(json: string): string {
  try {
    return dumpJson(sorted(parseJson(json)));
  } catch {
    return json;
  }
}

function sorted(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(sorted);
  if (!(value instanceof Map)) return value;
  return new Map([...value].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([key, one]) => [key, sorted(one)]));
}
