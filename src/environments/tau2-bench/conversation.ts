// The reference's half-duplex orchestrator as a state machine: it determines the next speaker, the
// messages that the speaker receives, and the end. It is given each message and never requests one.
// Calls of either side are carried out at once, in the world of both.

import { PythonError } from "../../python-semantics/index.ts";
import type { TerminationReason } from "./evaluate.ts";
import type { Requestor, SpokenMessage, Tau2Message, ToolCall, ToolMessage } from "./messages.ts";
import type { Tau2Task } from "./tasks.ts";
import type { Tau2World, ToolAnswer } from "./world.ts";

export type ConversationOptions = {
  /** Maximum number of messages and rounds of calls. @default 100 */
  readonly maxSteps?: number;
  /** Maximum number of failed calls of both sides together. @default 10 */
  readonly maxErrors?: number;
  /**
   * True if an empty message, one with text beside calls, or text without a user ends the
   * conversation as its side's fault.
   * @default false
   */
  readonly enforcesProtocol?: boolean;
  /** True if a message of the agent is its last. @default never */
  readonly isAgentStop?: (message: SpokenMessage) => boolean;
};

/**
 * The messages that the next speaker has not seen: a message of the other side, or the results of
 * its own calls; `null` for none.
 */
export type Handed = SpokenMessage | readonly ToolMessage[] | null;

/** The side whose turn it is, or the reason of the end. */
export type ConversationState =
  | { readonly type: "turn"; readonly speaker: Requestor; readonly handed: Handed }
  | { readonly type: "over"; readonly reason: TerminationReason };

/** Token with which a user, or an agent without one, says that it is done. */
export const stopToken = "###STOP###";
const userStops = [stopToken, "###TRANSFER###", "###OUT-OF-SCOPE###"];

/** The agent's assumed utterance before the user's first one. */
export const greeting: SpokenMessage = {
  role: "assistant",
  content: "Hi! How can I help you today?",
  toolCalls: null,
};

/** True if a user's message ends the conversation by its text; text beside calls does not. */
export function isUserStop({ content, toolCalls }: SpokenMessage): boolean {
  return toolCalls === null && userStops.some((stop) => content?.includes(stop));
}

const hasText = ({ content }: SpokenMessage): boolean => content !== null && content.trim() !== "";

/** One conversation over a world. Single use. */
export class Conversation {
  readonly #world: Tau2World;
  readonly #options: Required<ConversationOptions>;
  readonly #messages: Tau2Message[] = [];
  #state: ConversationState;
  #steps = 0;
  #errors = 0;
  /** The agent's message whose calls are still arriving; `null` if there is none. */
  #open: { readonly message: SpokenMessage; readonly toolCalls: ToolCall[]; readonly results: ToolMessage[] } | null =
    null;

  /**
   * Brings the world into the state in which the task begins. Throws a `PythonError` where the
   * reference raises.
   */
  constructor(world: Tau2World, task: Tau2Task, options: ConversationOptions = {}) {
    this.#world = world;
    const { maxSteps = 100, maxErrors = 10, enforcesProtocol = false, isAgentStop = () => false } = options;
    this.#options = { maxSteps, maxErrors, enforcesProtocol, isAgentStop };
    world.setState(task.initial, task.history);
    this.#messages.push(...task.history);
    const last = task.history.at(-1);
    if (last !== undefined) this.#state = this.#resumed(last);
    else if (world.isSolo) this.#state = { type: "turn", speaker: "assistant", handed: null };
    else {
      this.#messages.push(greeting);
      this.#state = { type: "turn", speaker: "user", handed: greeting };
    }
  }

  get state(): ConversationState {
    return this.#state;
  }

  /** All messages and answers, beginning with the task's own history. */
  get messages(): readonly Tau2Message[] {
    return this.#messages;
  }

  /** Number of messages and rounds of calls. */
  get stepCount(): number {
    return this.#steps;
  }

  /** Number of failed calls. */
  get errorCount(): number {
    return this.#errors;
  }

  /**
   * Takes the message of the side whose turn it is, and carries out its calls. Throws a
   * `PythonError` for a message with neither text nor calls, and where a sync raises; a plain error
   * if the conversation is over or it is the other side's turn.
   */
  say(message: SpokenMessage): ConversationState {
    const state = this.#state;
    if (state.type === "over") throw new Error("Cannot continue with a conversation that is over.");
    if (message.role !== state.speaker) throw new Error(`Cannot take a message: it is not the ${message.role}'s turn.`);
    if (!hasText(message) && message.toolCalls === null) {
      const name = message.role === "user" ? "UserMessage" : "AssistantMessage";
      throw new PythonError("ValueError", `${name} must have either content or tool_calls. Got ${name}`);
    }
    // An agent without a user speaks first, and that message is not a step.
    const isFirst = state.handed === null;
    this.#messages.push(message);
    let reason = this.#reasonToStop(message, isFirst);
    if (this.#options.enforcesProtocol) reason = this.#faultOf(message) ?? reason;
    if (!isFirst) this.#steps++;
    this.#world.sync();
    const { toolCalls } = message;
    if (toolCalls === null || (isFirst && reason !== null)) {
      const other = message.role === "user" ? "assistant" : "user";
      return this.#advance({ speaker: other, handed: message }, { reason, isFirst });
    }
    // A limit ends nothing before the world has answered; a protocol fault does.
    return reason === null ? this.#carryOut(message) : this.#end(reason);
  }

  /**
   * Gives the user's turn to the agent, for episodes without anyone in the role of the user. The
   * reference has no such rule.
   */
  skipUser(): void {
    const state = this.#state;
    if (state.type === "turn" && state.speaker === "user") this.#state = { ...state, speaker: "assistant" };
  }

  /**
   * Takes one call of an agent's message whose calls arrive one at a time; the result equals that
   * of `say` with all of them. `calls`: number of calls; `call`: index of this one, from 0. The
   * answer is the world's, even if the conversation ends with it.
   */
  callAsAgent(
    call: ToolCall,
    { call: index, calls, text }: { readonly call: number; readonly calls: number; readonly text: string },
  ): ToolAnswer {
    if (index === 0) {
      const toolCalls: ToolCall[] = [];
      this.#open = {
        message: { role: "assistant", content: text === "" ? null : text, toolCalls },
        toolCalls,
        results: [],
      };
      const isFirst = this.#state.type === "turn" && this.#state.handed === null;
      this.#messages.push(this.#open.message);
      if (!isFirst) this.#steps++;
      this.#world.sync();
    }
    if (this.#open === null) throw new Error("Cannot take a call in the middle of a message that has not begun.");
    this.#open.toolCalls.push(call);
    const result = this.#answer(call);
    this.#open.results.push(result);
    const answer = { content: result.content ?? "", isError: result.isError };
    if (index < calls - 1) return answer;
    const { results } = this.#open;
    this.#open = null;
    this.#finishCalls("assistant", results);
    return answer;
  }

  #answer(call: ToolCall): ToolMessage {
    const { content, isError } = this.#world.answer(call);
    if (isError) this.#errors++;
    const result: ToolMessage = { role: "tool", id: call.id, content, requestor: call.requestor, isError };
    this.#messages.push(result);
    return result;
  }

  #resumed(last: Tau2Message): ConversationState {
    if (last.role === "system") {
      throw new PythonError(
        "ValueError",
        "Last message should be of type AssistantMessage, UserMessage, or ToolMessage",
      );
    }
    if (last.role === "tool") return { type: "turn", speaker: last.requestor, handed: [last] };
    if (last.toolCalls !== null) return this.#carryOut(last);
    const isStop = last.role === "user" ? isUserStop(last) : this.#options.isAgentStop(last);
    if (isStop) return { type: "over", reason: last.role === "user" ? "user_stop" : "agent_stop" };
    return { type: "turn", speaker: last.role === "user" ? "assistant" : "user", handed: last };
  }

  #carryOut(message: SpokenMessage): ConversationState {
    const results = (message.toolCalls ?? []).map((call) => this.#answer(call));
    if (results.length === 0) throw new PythonError("IndexError", "list index out of range");
    return this.#finishCalls(message.role, results);
  }

  #finishCalls(speaker: Requestor, results: readonly ToolMessage[]): ConversationState {
    this.#steps++;
    this.#world.sync();
    return this.#advance({ speaker, handed: results }, { reason: null, isFirst: false });
  }

  /** The limits also apply to a conversation that was about to stop. */
  #advance(
    turn: { readonly speaker: Requestor; readonly handed: Handed },
    { reason, isFirst }: { readonly reason: TerminationReason | null; readonly isFirst: boolean },
  ): ConversationState {
    const { maxSteps, maxErrors } = this.#options;
    if (isFirst) return reason === null ? (this.#state = { type: "turn", ...turn }) : this.#end(reason);
    if (this.#errors >= maxErrors) return this.#end("too_many_errors");
    if (this.#steps >= maxSteps) return this.#end("max_steps");
    return reason === null ? (this.#state = { type: "turn", ...turn }) : this.#end(reason);
  }

  #end(reason: TerminationReason): ConversationState {
    return (this.#state = { type: "over", reason });
  }

  #reasonToStop(message: SpokenMessage, isFirst: boolean): TerminationReason | null {
    if (message.role === "user") return isUserStop(message) ? "user_stop" : null;
    // Later in the conversation, calls are carried out regardless of the text beside them.
    if (this.#options.isAgentStop(message) && (isFirst || message.toolCalls === null)) return "agent_stop";
    return this.#world.isSolo && message.toolCalls === null ? "agent_error" : null;
  }

  #faultOf(message: SpokenMessage): TerminationReason | null {
    const isMixed = message.toolCalls !== null && hasText(message);
    const isAlone = message.role === "assistant" && this.#world.isSolo && hasText(message);
    if (!isMixed && !(isAlone && !this.#options.isAgentStop(message))) return null;
    return message.role === "user" ? "user_error" : "agent_error";
  }
}
