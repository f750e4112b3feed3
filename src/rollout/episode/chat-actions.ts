// Actions of an agent behind an API: it is shown messages and answers them. Nothing is recorded that could be trained, since
// nobody tells what it sampled.

import type { Decision, ChatAgent } from "../../core/agent.ts";
import { attribute } from "../../core/failure.ts";
import type { AssistantMessage, Message, Tool } from "../../core/message.ts";
import type { ParsedAction } from "../../core/renderer.ts";
import { deriveSeed } from "../../lib/random.ts";
import type { ActionEvent, ActionSource, AskedAction, Shown } from "./action-source.ts";
import { Stop } from "./stop.ts";
import type { ResolvedOptions } from "./episode-options.ts";

export class ChatActions implements ActionSource {
  readonly eventType = "agent-reply";
  readonly historyPolicy = "no-tokens";
  readonly trajectory = { turns: [] };
  readonly #agent: ChatAgent;
  readonly #options: ResolvedOptions;
  #messages: readonly Message[] = [];
  #tools: readonly Tool[] = [];
  #outputTokens = 0;

  constructor(agent: ChatAgent, options: ResolvedOptions) {
    this.#agent = agent;
    this.#options = options;
  }

  open(opening: Parameters<ActionSource["open"]>[0]): void {
    this.#messages = [...opening.messages];
    this.#tools = opening.shownTools;
  }

  async ask(turn: number): Promise<AskedAction> {
    const { clock, limits, seed, seedTurns, sampling, signal } = this.#options;
    if (limits.maxSampledTokens !== null && this.#outputTokens >= limits.maxSampledTokens) throw new Stop("max_tokens");
    const start = clock.now();
    const request = {
      messages: this.#messages,
      tools: this.#tools,
      turn,
      seed: seedTurns ? deriveSeed(seed, "turn", turn) : sampling.seed,
    };
    const answer = this.#agent.reply(request, signal === null ? {} : { signal });
    const { action, usage, attempts } = await answer.catch((error: unknown) => {
      throw attribute(error, "engine");
    });
    this.#outputTokens += usage.outputTokens;
    return {
      event: { type: "agent-reply", turn, attempts, usage, durationMs: clock.now() - start },
      next: { type: "read", read: () => action },
    };
  }

  /** What the agent said stands in the decision about it. */
  replay(event: ActionEvent, { recorded }: Parameters<ActionSource["replay"]>[1]): AskedAction {
    if (event.type === "agent-reply") this.#outputTokens += event.usage.outputTokens;
    const next = recorded.peek();
    if (next?.type === "decision") return { event, next: { type: "read", read: () => next.action } };
    const error = recorded.ending() ?? recorded.diverged("engine", "the answer of the agent is missing");
    return { event, next: { type: "end", error } };
  }

  /** With the one call that gets an answer: servers refuse a history in which a call has none. */
  asMessage({ content, reasoning, toolCalls }: ParsedAction, decision: Decision): AssistantMessage {
    const answered = decision.type === "call" || decision.type === "observe" ? decision.call : null;
    return {
      role: "assistant",
      content,
      reasoning,
      toolCalls: answered !== null && toolCalls.includes(answered) ? [answered] : [],
    };
  }

  show({ history, newMessages }: Shown): void {
    this.#messages = [...history, ...newMessages];
  }

  close(): void {
    // An agent behind an API keeps nothing here.
  }
}
