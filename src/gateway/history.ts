// What a session has seen and sampled, as a forest of conversations, and which of it a request continues. Histories are compared by
// meaning, because clients drop and rewrite everything else: role, text, names of tools, and arguments as JSON values count;
// ids, white space around an answer, reasoning, null or empty contents do not. Not a record of tokens: see `session.ts`.

import type { AssistantMessage, Message, ParsedAction, Tool, Turn } from "../core/index.ts";
import type { TokenBuffer } from "../core/token-buffer.ts";
import { dumpJson, type JsonValue, parseJson } from "../python-semantics/json/index.ts";
import type { ResponseFacts } from "./request.ts";

/** The tools of a request; equal ones are one object within a session. */
export type ToolSet = { readonly tools: readonly Tool[]; readonly key: string };

/** What histories know of an answered call, wherever its answer came from. */
export type Answered<T> = {
  /** The call whose conversation this one's messages follow; `null`: they are the whole conversation. */
  readonly basis: T | null;
  /** What the client added to the basis, as it sent it. */
  readonly messages: readonly Message[];
  readonly tools: ToolSet;
  readonly action: ParsedAction;
};

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
export type Continuation<T = SampledTurn> = {
  /** `null`: nothing sampled is continued. */
  readonly basis: T | null;
  /** Messages of the request that the basis covers. */
  readonly covered: number;
  /** Leading messages that were seen before, in this order; `covered` or more. */
  readonly known: number;
  /** The conversation is known, with other tools. */
  readonly hasOtherTools: boolean;
  /** Answers among the known messages that were sampled here, by their place. */
  readonly sampled: ReadonlyMap<number, T>;
};

/** What of a message counts when histories are compared. */
type MessageKey = { readonly kind: string; readonly text: string };

type Place<T> = {
  /** By kind and text: a long text that is joined to its kind would be copied for every comparison. */
  readonly next: Map<string, Map<string, Place<T>>>;
  turns: T[];
  /** The step that was taken last: comparing a long text is many times cheaper than hashing it. */
  recent: { readonly key: MessageKey; readonly place: Place<T> } | null;
};

export class History<T extends Answered<T> = SampledTurn> {
  readonly #root = emptyPlace<T>();
  /** Behind the answer of each turn. */
  readonly #places = new Map<T, Place<T>>();
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
  find(messages: readonly Message[], tools: ToolSet): Continuation<T> {
    const keys = messageKeys(messages);
    let place: Place<T> | undefined = this.#root;
    let known = 0;
    let basis: T | null = null;
    let covered = 0;
    let hasOtherTools = false;
    const sampled = new Map<number, T>();
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

  add(turn: T): void {
    const { basis, messages, action } = turn;
    let place = (basis === null ? undefined : this.#places.get(basis)) ?? this.#root;
    // Results are told apart by the calls that they answer.
    const keys = basis === null ? messageKeys(messages) : messageKeys([seenAnswer(basis), ...messages]).slice(1);
    for (const key of keys) place = step(place, key);
    const [key, ...others] = answerKeys(action);
    const answered = step(place, key!);
    answered.turns.push(turn);
    this.#places.set(turn, answered);
    // Another spelling of the same answer leads to the same conversations.
    for (const other of others) if (next(place, other) === undefined) lead(place, other, answered);
  }
}

function emptyPlace<T>(): Place<T> {
  return { next: new Map(), turns: [], recent: null };
}

function next<T>(place: Place<T>, key: MessageKey): Place<T> | undefined {
  const { recent } = place;
  if (recent !== null && recent.key.kind === key.kind && recent.key.text === key.text) return recent.place;
  const known = place.next.get(key.kind)?.get(key.text);
  if (known !== undefined) place.recent = { key, place: known };
  return known;
}

function step<T>(place: Place<T>, key: MessageKey): Place<T> {
  return next(place, key) ?? lead(place, key, emptyPlace());
}

function lead<T>(place: Place<T>, key: MessageKey, to: Place<T>): Place<T> {
  const ofKind = place.next.get(key.kind);
  if (ofKind === undefined) place.next.set(key.kind, new Map([[key.text, to]]));
  else ofKind.set(key.text, to);
  place.recent = { key, place: to };
  return to;
}

/** Of turns whose answers look alike, the one whose call ids or reasoning the client echoes, else the latest. */
function choose<T extends Answered<T>>(turns: readonly T[], message: Message, tools: ToolSet): T | null {
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
  for (const { rendered, answer } of turns.reverse()) messages.push(...rendered, answer);
  return messages;
}

/** The same up to the answer, as its client has it: answers by what it was told. */
export function seenPrompt<T extends Answered<T>>(turn: T): Message[] {
  const parts: (readonly Message[])[] = [turn.messages];
  for (let at = turn.basis; at !== null; at = at.basis) parts.push([...at.messages, seenAnswer(at)]);
  return parts.toReversed().flat();
}

export function seenAnswer({ action }: Pick<Answered<never>, "action">): AssistantMessage {
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
    ordered.splice(at, end - at, ...ordered.slice(at, end).toSorted((a, b) => placeOf(a) - placeOf(b)));
  }
  return ordered;
}

function messageKeys(messages: readonly Message[]): MessageKey[] {
  let calls: AssistantMessage["toolCalls"] = [];
  return messages.map((message) => {
    switch (message.role) {
      case "system":
      case "user":
        return { kind: message.role, text: message.content };
      case "assistant":
        calls = message.toolCalls;
        return answerKey(message.content, calls);
      case "tool":
        return { kind: `tool ${calls.findLastIndex(({ id }) => id === message.callId)}`, text: message.content };
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
