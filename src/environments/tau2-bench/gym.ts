// A conversation as steps of text, as the reference's gym offers it, for programs that use that
// interface. No thread waits, and a world takes kilobytes.

import { PythonError } from "../../python-semantics/index.ts";
import { callText, parseActionText } from "./action-text.ts";
import { Conversation, type Handed, stopToken } from "./conversation.ts";
import type { DomainData } from "./domain-data.ts";
import { evaluate, type Judge, type RewardInfo, type TerminationReason } from "./evaluate.ts";
import type { SpokenMessage, Tau2Message } from "./messages.ts";
import { soloStopTool, visibleTo } from "./prompts.ts";
import { loggedReadsOf, type Tau2Task } from "./tasks.ts";
import { countedIds, Tau2World } from "./world.ts";

export type GymOptions = {
  /** Returns the next message of the user; not called without a user. */
  readonly user?: (handed: Handed, messages: readonly Tau2Message[]) => Promise<SpokenMessage>;
  /** @default 100 */
  readonly maxSteps?: number;
  /** True for an agent that has the user's tools and no user. @default false */
  readonly isSolo?: boolean;
  /** True if an observation shows all that the agent has seen, not only new messages. @default false */
  readonly showsAll?: boolean;
  readonly judge?: Judge;
};

export type GymStep = {
  readonly observation: string;
  /** Reward of the episode; 0 before the end. */
  readonly reward: number;
  readonly isTerminated: boolean;
  /** Evaluation after every valid action; `null` after an invalid one, and after the end. */
  readonly rewardInfo: RewardInfo | null;
};

/** One episode. Single use. */
export class Tau2Gym {
  readonly #data: DomainData;
  readonly #task: Tau2Task;
  readonly #options: GymOptions;
  readonly #conversation: Conversation;
  /** Number of messages that were shown, or said by the agent. */
  #shown = 0;

  /** Throws a `PythonError` if the task cannot begin. */
  constructor(data: DomainData, task: Tau2Task, options: GymOptions = {}) {
    this.#data = data;
    this.#task = task;
    this.#options = options;
    const { isSolo = false, maxSteps = 100 } = options;
    const world = new Tau2World(data.world, { isSolo, createId: countedIds("B"), loggedReads: loggedReadsOf(task) });
    this.#conversation = new Conversation(world, task, {
      maxSteps,
      isAgentStop: ({ content }) => content?.includes(stopToken) ?? false,
    });
  }

  /** Names of the agent's tools. */
  get toolNames(): readonly string[] {
    const { tools, userTools } = this.#data;
    const own = this.#options.isSolo === true ? [...tools, ...userTools] : tools;
    return [...own.map(({ name }) => name), soloStopTool];
  }

  get messages(): readonly Tau2Message[] {
    return this.#conversation.messages;
  }

  /** The termination reason; `null` if the conversation has not ended. */
  get reason(): TerminationReason | null {
    const { state } = this.#conversation;
    return state.type === "over" ? state.reason : null;
  }

  /** Lets the user speak until it is the agent's turn, and returns the messages as text. */
  async reset(): Promise<string> {
    await this.#letUserSpeak();
    return this.reason === null ? this.#observe() : "";
  }

  /** Carries out an action: a call as JSON or in Python's notation, or an utterance. */
  async step(action: string): Promise<GymStep> {
    if (this.reason !== null) return { observation: "", reward: 0, isTerminated: true, rewardInfo: null };
    let message: SpokenMessage;
    try {
      message = parseActionText(action, "assistant");
    } catch (error) {
      if (!(error instanceof PythonError)) throw error;
      const observation = `Invalid action with error: ${error.message}`;
      return { observation, reward: 0, isTerminated: false, rewardInfo: null };
    }
    const isDone = message.toolCalls?.some(({ name }) => name === soloStopTool) ?? false;
    this.#conversation.say(isDone ? { ...message, content: stopToken, toolCalls: null } : message);
    if (this.#options.showsAll !== true) this.#shown = this.#lastOfAgent() + 1;
    const endedItself = this.reason !== null;
    await this.#letUserSpeak();
    const { judge, isSolo = false } = this.#options;
    const rewardInfo = await evaluate(this.#data, this.#task, this.messages, {
      reason: this.reason ?? "user_stop",
      isSolo,
      ...(judge === undefined ? {} : { judge }),
    });
    const isTerminated = this.reason !== null;
    const observation = endedItself ? "" : this.#observe();
    return { observation, reward: isTerminated ? rewardInfo.reward : 0, isTerminated, rewardInfo };
  }

  async #letUserSpeak(): Promise<void> {
    for (;;) {
      const { state, messages } = this.#conversation;
      if (state.type === "over" || state.speaker === "assistant") return;
      if (this.#options.user === undefined)
        throw new Error("Cannot run this task: it needs a user, and there is none.");
      this.#conversation.say(await this.#options.user(state.handed, messages));
    }
  }

  #lastOfAgent(): number {
    return this.messages.findLastIndex(({ role }) => role === "assistant");
  }

  #observe(): string {
    const from = this.#options.showsAll === true ? 0 : Math.max(this.#shown, this.#lastOfAgent() + 1);
    return visibleTo("assistant", this.messages.slice(from)).map(lineOf).join("\n");
  }
}

function lineOf(message: Tau2Message): string {
  const calls = "toolCalls" in message ? message.toolCalls : null;
  return `${message.role}: ${calls === null ? (message.content ?? "") : calls.map(callText).join(", ")}`;
}
