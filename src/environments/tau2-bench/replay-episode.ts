// Replays a recorded episode in its world, and returns the utterances and calls of both sides as
// upstream records them. No model is called; the world is deterministic, so it gives the same
// answers.

import type { Episode, EpisodeEvent } from "../../core/episode.ts";
import { type CallDecision, callsOf } from "../../core/agent.ts";
import type { DomainData } from "./domain-data.ts";
import type { TerminationReason } from "./evaluate.ts";
import type { Tau2Message } from "./messages.ts";
import type { MessageCost } from "./results-file.ts";
import { Tau2Environment } from "./tau2-environment.ts";
import type { Tau2Task } from "./tasks.ts";

export type ReplayedEpisode = {
  readonly messages: readonly Tau2Message[];
  readonly reason: TerminationReason;
  /** Costs of messages that a model or a person wrote in the episode, by message index. */
  readonly spent: ReadonlyMap<number, MessageCost>;
  /** Time spent by both sides and the tools, in milliseconds. */
  readonly durationMs: number;
};

/** `task`: the task of the episode, from the data. */
export async function replayTau2Episode(
  data: DomainData,
  task: Tau2Task,
  episode: Pick<Episode, "task" | "events" | "outcome" | "stopReason">,
  { isSolo = false }: { readonly isSolo?: boolean } = {},
): Promise<ReplayedEpisode> {
  const world = new Tau2Environment(episode.task, { data, task, options: { isSolo } });
  const spent = new Map<number, MessageCost>();
  let durationMs = 0;
  let sampling: MessageCost | null = null;
  let made: { readonly calls: readonly CallDecision[]; readonly text: string; carriedOut: number } | null = null;
  /** Runs an action in the world, and records the cost of the message that it adds. */
  const speak = async (cost: MessageCost | null, action: () => unknown): Promise<void> => {
    const { length } = world.messages;
    await action();
    if (cost !== null && world.messages.length > length) spent.set(length, cost);
  };
  for (const event of episode.events) {
    if ("durationMs" in event && event.type !== "judgement" && event.type !== "grade") durationMs += event.durationMs;
    if (event.type === "turn" || event.type === "agent-reply") sampling = costOf(event);
    else if (event.type === "user-line") {
      await speak(costOf(event), () => world.userSide?.act(event.line));
    } else if (event.type === "decision") {
      const { decision, action } = event;
      made = { calls: callsOf(decision), text: action.content, carriedOut: 0 };
      if (decision.type === "say") await speak(sampling, () => world.receiveUtterance(decision.content));
    } else if (event.type === "tool-result" && made !== null) {
      const { calls, text, carriedOut } = made;
      const { call, arguments: given } = calls[event.call ?? 0] ?? { call: null, arguments: null };
      if (call === null || given === null) continue;
      made.carriedOut++;
      const total = calls.filter((one) => one.arguments !== null).length;
      const action = { call: carriedOut, calls: total, text };
      await speak(carriedOut === 0 ? sampling : null, () =>
        world.call({ name: call.name, arguments: given }, { action }),
      );
    }
  }
  return { messages: world.messages, reason: world.ended ?? unfinished(episode), spent, durationMs };
}

type Costly = Extract<EpisodeEvent, { readonly type: "turn" | "agent-reply" | "user-line" }>;

/** The cost of an event; `null` if no model was called. */
function costOf(event: Costly): MessageCost | null {
  const { durationMs } = event;
  if (event.type === "turn") {
    const { promptTokens, completionTokens } = event.usage;
    return { promptTokens, completionTokens, cost: null, durationMs };
  }
  const { modelCalls, inputTokens, outputTokens, cost } = event.type === "user-line" ? event.line.usage : event.usage;
  return modelCalls === 0 ? null : { promptTokens: inputTokens, completionTokens: outputTokens, cost, durationMs };
}

/**
 * Termination reason of an episode that ended by a limit of the loop, or by an action that could
 * not be read.
 */
function unfinished({ outcome, stopReason }: Pick<Episode, "outcome" | "stopReason">): TerminationReason {
  if (stopReason === "context_length") return "context_window_exceeded";
  return outcome === "completed" ? "agent_error" : "max_steps";
}
