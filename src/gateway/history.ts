// History of a session: a forest of the conversations that it has seen and sampled, and the search
// for the one that a request continues. Conversations are compared by meaning, because clients drop
// and rewrite everything else. Role, text, tool names, and arguments as a JSON reader parses them
// count; ids, white space around an answer, reasoning, and null or empty contents do not. Tokens
// are not recorded here: see `session.ts`.

import type { AssistantMessage, Message, ParsedAction, Renderer, Tool, Turn } from "../core/index.ts";
import type { TokenBuffer } from "../core/token-buffer.ts";
import { finish, mapInSteps, type Steps } from "../lib/steps.ts";
import { dumpJson } from "../python-semantics/json/index.ts";
import { answerKeys, echoKey, type MessageKey } from "./answer-keys.ts";
import type { ResponseFacts } from "./request.ts";

/** Tools of a request; within a session, equal tool sets are the same object. */
export type ToolSet = {
  readonly tools: readonly Tool[];
  readonly key: string;
  /** Renderer of calls whose client set template variables; `null` for the session's renderer. */
  readonly renderer: Renderer | null;
};

/** The part of an answered call that a history needs, regardless of which model answered. */
export type Answered<T> = {
  /**
   * The call whose conversation these messages continue; `null` if they are the whole conversation.
   */
  readonly basis: T | null;
  /** Messages that the client added to the basis, as it sent them. */
  readonly messages: readonly Message[];
  readonly tools: ToolSet;
  readonly action: ParsedAction;
};

/** A sampled turn and its place in its conversation. */
export type SampledTurn = {
  readonly turn: Turn;
  readonly call: number;
  /**
   * The turn whose conversation these messages continue; `null` if they are the whole conversation.
   */
  readonly basis: SampledTurn | null;
  /** Messages that the client added to the basis, as it sent them. */
  readonly messages: readonly Message[];
  /**
   * The same messages as rendered: answers that were sampled here are replaced by the sampled ones.
   */
  readonly rendered: readonly Message[];
  readonly tools: ToolSet;
  readonly action: ParsedAction;
  /** The raw answer, which keeps the sampled text when a template renders it. */
  readonly answer: AssistantMessage;
  readonly response: ResponseFacts | null;
  /**
   * Prompt and action; `null` if they must be derived from the record. The first turn that
   * continues this one takes the buffer; later ones fork it.
   */
  buffer: TokenBuffer | null;
  /** True if a prompt extends the buffer; further prompts fork it. */
  isClaimed: boolean;
  /** True if a recorded turn follows it. */
  isContinued: boolean;
  /** True if its client has received the whole answer. */
  isDelivered: boolean;
  /** Number of tokens of prompt and action. */
  readonly length: number;
};

/** The place in the known history that a request continues. */
export type Continuation<T = SampledTurn> = {
  /** The turn that is continued; `null` if no sampled turn is. */
  readonly basis: T | null;
  /** Number of messages of the request that the basis covers. */
  readonly covered: number;
  /** Number of leading messages that were seen before, in this order; at least `covered`. */
  readonly known: number;
  /** True if the conversation is known, but with other tools. */
  readonly hasOtherTools: boolean;
  /** Answers among the known messages that were sampled here, by their index. */
  readonly sampled: ReadonlyMap<number, T>;
};

type Place<T> = {
  /** Next places by kind, then text: one joined key would copy a long text for every comparison. */
  next: Map<string, Map<string, Place<T>>> | null;
  /**
   * Places after answers that clients may echo in a different form, by echo, the latest last.
   * `null` if there are none.
   */
  echoes: Map<string, Place<T>[]> | null;
  /** Turns whose answers end here; `null` if there are none. */
  turns: T[] | null;
  /**
   * The most recent step, because comparing a long text is many times cheaper than hashing it. It
   * is the only step while `next` is `null`.
   */
  recent: { readonly key: MessageKey; readonly place: Place<T> } | null;
};

export class History<T extends Answered<T> = SampledTurn> {
  readonly #root = emptyPlace<T>();
  /** The place after the answer of each turn. */
  readonly #places = new Map<T, Place<T>>();
  readonly #toolSets = new Map<string, ToolSet>();

  /**
   * The shared set of equal tools. `renderer`: the renderer of a call whose client set template
   * variables, because such calls render their tools differently.
   * @default the session's
   */
  toolSet(tools: readonly Tool[], renderer: Renderer | null = null): ToolSet {
    const variables = renderer?.templateKwargs ?? null;
    const key = dumpJson(tools.map(({ definition }) => definition)) + (variables === null ? "" : dumpJson(variables));
    const known = this.#toolSets.get(key);
    if (known !== undefined) return known;
    const made = { tools, key, renderer };
    this.#toolSets.set(key, made);
    return made;
  }

  /**
   * Finds the place that a request continues. `messages`: with their results resolved (see
   * `call-results.ts`).
   */
  *find(messages: readonly Message[], tools: ToolSet): Steps<Continuation<T>> {
    const keys = yield* messageKeys(messages);
    let place: Place<T> | undefined = this.#root;
    let known = 0;
    let basis: T | null = null;
    let covered = 0;
    let hasOtherTools = false;
    const sampled = new Map<number, T>();
    for (let at = 0; at < keys.length; at++) {
      place = follow(place, keys[at]!, messages[at]!);
      if (place === undefined) break;
      known = at + 1;
      const last = place.turns?.at(-1);
      if (place.turns === null || last === undefined) continue;
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
    // Results are distinguished by the calls that they answer.
    const seen = basis === null ? messages : [seenAnswer(basis), ...messages];
    const keys = finish(messageKeys(seen)).slice(seen.length - messages.length);
    for (const key of keys) place = step(place, key);
    const [key, ...echoes] = answerKeys(action);
    const answered = step(place, key);
    (answered.turns ??= []).push(turn);
    this.#places.set(turn, answered);
    for (const { text } of echoes) {
      const echoed = (place.echoes ??= new Map<string, Place<T>[]>());
      const known = echoed.get(text);
      if (known === undefined) echoed.set(text, [answered]);
      else known.splice(0, known.length, ...known.filter((one) => one !== answered), answered);
    }
  }
}

/** An empty place. Small, because one request may create a hundred thousand. */
function emptyPlace<T>(): Place<T> {
  return { next: null, echoes: null, turns: null, recent: null };
}

/**
 * The place after a client's message. If several answers match, the one with the message's call
 * ids, otherwise one with the same text.
 */
function follow<T extends Answered<T>>(place: Place<T>, key: MessageKey, message: Message): Place<T> | undefined {
  const asGiven = next(place, key);
  const echoed = message.role === "assistant" ? place.echoes?.get(key.text) : undefined;
  if (echoed === undefined || message.role !== "assistant") return asGiven;
  const places = asGiven === undefined ? echoed : [...echoed, asGiven];
  return places.findLast(({ turns }) => turns?.some((turn) => hasIds(turn, message)) === true) ?? places.at(-1);
}

function next<T>(place: Place<T>, key: MessageKey): Place<T> | undefined {
  const { recent } = place;
  if (recent !== null && recent.key.kind === key.kind && recent.key.text === key.text) return recent.place;
  const known = place.next?.get(key.kind)?.get(key.text);
  if (known !== undefined) place.recent = { key, place: known };
  return known;
}

function step<T>(place: Place<T>, key: MessageKey): Place<T> {
  return next(place, key) ?? lead(place, key, emptyPlace());
}

function lead<T>(place: Place<T>, key: MessageKey, to: Place<T>): Place<T> {
  if (place.recent !== null) {
    place.next ??= mapOf(new Map(), place.recent);
    mapOf(place.next, { key, place: to });
  }
  place.recent = { key, place: to };
  return to;
}

function mapOf<T>(
  places: Map<string, Map<string, Place<T>>>,
  { key: { kind, text }, place }: NonNullable<Place<T>["recent"]>,
): Map<string, Map<string, Place<T>>> {
  const ofKind = places.get(kind);
  if (ofKind === undefined) places.set(kind, new Map([[text, place]]));
  else ofKind.set(text, place);
  return places;
}

/**
 * Chooses among turns whose answers look alike: the one whose call ids or reasoning the client
 * echoes, otherwise the latest.
 */
function choose<T extends Answered<T>>(turns: readonly T[], message: Message, tools: ToolSet): T | null {
  const fitting = turns.filter((turn) => turn.tools === tools);
  if (fitting.length <= 1 || message.role !== "assistant") return fitting.at(-1) ?? null;
  return (
    fitting.findLast((turn) => hasIds(turn, message)) ??
    fitting.findLast(({ action }) => message.reasoning !== null && message.reasoning === action.reasoning) ??
    fitting.at(-1)!
  );
}

/** True if the client echoes the call ids of an answer. */
function hasIds({ action: { toolCalls } }: Pick<SampledTurn, "action">, message: AssistantMessage): boolean {
  return toolCalls.length > 0 && toolCalls.every(({ id }, place) => id === message.toolCalls[place]?.id);
}

/** The conversation up to and including an answer, as rendered. */
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

/** The conversation before the answer, as its client has it: with the answers that it received. */
export function seenPrompt<T extends Answered<T>>(turn: T): Message[] {
  const parts: (readonly Message[])[] = [turn.messages];
  for (let at = turn.basis; at !== null; at = at.basis) parts.push([...at.messages, seenAnswer(at)]);
  return parts.toReversed().flat();
}

export function seenAnswer({ action }: Pick<Answered<never>, "action">): AssistantMessage {
  return { role: "assistant", content: action.content, reasoning: null, toolCalls: action.toolCalls };
}

/** Keys of messages whose results are resolved: each result has the id of its call. */
function messageKeys(messages: readonly Message[]): Steps<MessageKey[]> {
  let places: ReadonlyMap<string, number> = new Map();
  return mapInSteps(messages, (message) => {
    switch (message.role) {
      case "system":
      case "user":
        return { kind: message.role, text: message.content };
      case "assistant":
        places = new Map(message.toolCalls.map(({ id }, place) => [id, place]));
        return echoKey(message.content, message.toolCalls);
      case "tool":
        return { kind: `tool ${places.get(message.callId ?? "") ?? -1}`, text: message.content };
      default:
        return message satisfies never;
    }
  });
}
