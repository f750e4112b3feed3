// Calls of a session that an API model answers, as a forest of conversations without tokens. Each
// call stores only the messages that it added to the call that it continues, so that a long
// conversation is stored once.

import type { Message, ParsedAction } from "../../core/index.ts";
import { type JsonObject, toPlain } from "../../python-semantics/json/index.ts";
import { finish } from "../../lib/steps.ts";
import { inCallOrder } from "../call-results.ts";
import { History, seenAnswer, seenPrompt, type ToolSet } from "../history.ts";
import type { ResponseFacts, SampledItems } from "../request.ts";
import type { NamedAnswers, ShownRequest } from "./forwarded-request.ts";

/** An answered call and its place in its conversation. */
export type ForwardedTurn = {
  /**
   * The call whose conversation these messages continue; `null` if they are the whole conversation.
   */
  readonly basis: ForwardedTurn | null;
  /** Messages that the program added to the basis. */
  readonly messages: readonly Message[];
  readonly tools: ToolSet;
  readonly action: ParsedAction;
  /** Number of the answer in the episode. */
  readonly index: number;
  /** Number of the call in the session. */
  readonly call: number;
  readonly response: ResponseFacts | null;
  /** True if a recorded call follows it. */
  isContinued: boolean;
  /** True if its program has received the whole answer. */
  isDelivered: boolean;
};

/** A request and the call that it continues. */
export type PlacedRequest = Pick<ForwardedTurn, "basis" | "messages" | "tools" | "response"> & {
  /** The whole conversation. */
  readonly all: readonly Message[];
};

export class ForwardedRecord implements NamedAnswers {
  readonly idPrefix: string;
  readonly turns: ForwardedTurn[] = [];
  #history = new History<ForwardedTurn>();
  readonly #byCall = new Map<number, ForwardedTurn>();
  readonly #byResponse = new Map<string, ForwardedTurn>();
  readonly #items = new Map<string, JsonObject>();

  constructor(idPrefix: string) {
    this.idPrefix = idPrefix;
  }

  toolSet(tools: ToolSet["tools"]): ToolSet {
    return this.#history.toolSet(tools);
  }

  /**
   * Finds the place of a request. A change of tools continues the conversation, because nothing is
   * rendered here.
   */
  place({ messages: sent, tools, response }: ShownRequest): PlacedRequest {
    const all = inCallOrder(sent);
    const set = this.toolSet(tools);
    const { sampled } = finish(this.#history.find(all, set));
    const [at, basis] = [...sampled].at(-1) ?? [-1, null];
    return { basis, messages: all.slice(at + 1), tools: set, response, all };
  }

  add(
    fields: Pick<ForwardedTurn, "call" | "basis" | "messages" | "tools" | "action" | "response">,
    names: { readonly id: string | null; readonly items: ReadonlyMap<string, JsonObject> } | null,
  ): ForwardedTurn {
    const { call, basis, messages, tools, action, response } = fields;
    const turn = {
      call,
      basis,
      messages,
      tools,
      action,
      response,
      index: this.turns.length,
      isContinued: false,
      isDelivered: false,
    };
    if (basis !== null) basis.isContinued = true;
    this.turns.push(turn);
    this.#byCall.set(call, turn);
    this.#history.add(turn);
    if (names !== null && names.id !== null) this.#byResponse.set(names.id, turn);
    for (const [id, item] of names?.items ?? []) this.#items.set(id, item);
    return turn;
  }

  /** Keeps the turns, but continues none of them, because the program begins again. */
  forget(): void {
    this.#history = new History();
    for (const known of [this.#byCall, this.#byResponse, this.#items]) known.clear();
  }

  callOf(responseId: string): number | null {
    return this.#byResponse.get(responseId)?.call ?? null;
  }

  itemOf(itemId: string): unknown {
    const item = this.#items.get(itemId);
    return item === undefined ? null : toPlain(item);
  }

  answer(call: number): ReturnType<SampledItems["answer"]> {
    const turn = this.#byCall.get(call);
    return turn === undefined ? null : { action: turn.action, isStored: turn.response?.isStored ?? true };
  }

  history(call: number): ReturnType<SampledItems["history"]> {
    const turn = this.#byCall.get(call);
    if (turn === undefined) return null;
    return {
      messages: [...seenPrompt(turn), seenAnswer(turn)],
      hasInstructions: turn.response?.hasInstructions ?? false,
    };
  }
}

/**
 * The conversation up to and including an answer; answers of the model are split into their parts.
 */
export function conversationTo(turn: ForwardedTurn): Message[] {
  const turns: ForwardedTurn[] = [];
  for (let at: ForwardedTurn | null = turn; at !== null; at = at.basis) turns.push(at);
  return turns.toReversed().flatMap(({ messages, action }) => [...messages, asMessage(action)]);
}

function asMessage({ content, reasoning, toolCalls }: ParsedAction): Message {
  return { role: "assistant", content, reasoning, toolCalls };
}
