// What an evaluation keeps of one episode: numbers and a few words, so that thousands fit in memory. Made from an episode of
// a run folder, or from a recorded run of another program.

import { type Episode, type Outcome, outcomeOf } from "../../core/index.ts";
import { episodeUsage } from "../../rollout/index.ts";
import { type Conversation, conversationOf, type FaultAttribution, isSuccess } from "../../graders/index.ts";
import type { FaultGrader } from "./fault-grader.ts";

export type Counts = Readonly<Record<string, number>>;

/** Durations of an episode by who took the time, in milliseconds. */
export type Durations = {
  readonly policy: number;
  readonly user: number;
  readonly tools: number;
};

export type EpisodeScore = {
  readonly taskId: string;
  readonly taskIndex: number;
  readonly trial: number;
  /** `null`: not graded. */
  readonly reward: number | null;
  readonly outcome: Outcome;
  /** Why it ended; of an episode that failed, `boundary/code`. */
  readonly ending: string;
  /** Calls of the engine or of the agent's model; of a recorded conversation, the agent's calls and utterances. */
  readonly turns: number;
  readonly toolCalls: number;
  /** Calls that were refused or raised, by `tool: kind of error`. */
  readonly toolErrors: Counts;
  /** Problems of actions, by code. */
  readonly problems: Counts;
  /** US dollars that an agent behind an API cost; 0 for an engine, `null`: not known. */
  readonly agentCost: number | null;
  /** US dollars that the user cost; `null`: not known. */
  readonly userCost: number | null;
  /** `null`: not known. */
  readonly durations: Durations | null;
  /** `null` for a success. */
  readonly fault: FaultAttribution | null;
};

/** The score of an episode. */
export async function scoreEpisode(episode: Episode, gradeFault: FaultGrader): Promise<EpisodeScore> {
  const conversation = conversationOf(episode);
  const { task, sampleIndex, reward, failure, stopReason, events } = episode;
  const durations = { policy: 0, user: 0, tools: 0 };
  const { agent, user } = episodeUsage(episode);
  for (const event of events) {
    if (event.type === "turn" || event.type === "agent-reply") durations.policy += event.durationMs;
    if (event.type === "tool-result") durations.tools += event.durationMs;
    if (event.type === "user-line") durations.user += event.durationMs;
  }
  const outcome = outcomeOf(stopReason);
  const isFailed = reward === null || !isSuccess(reward);
  const fault = isFailed ? await gradeFault(task, { conversation, outcome, failure }) : null;
  return {
    taskId: task.id,
    taskIndex: task.index,
    trial: sampleIndex,
    reward,
    outcome,
    ending: failure === null ? stopReason : `${failure.boundary}/${failure.code}`,
    ...countActions(conversation),
    turns: events.filter(({ type }) => type === "turn" || type === "agent-reply").length,
    problems: count(episode.problems.map(({ code }) => code)),
    agentCost: agent.cost,
    userCost: user.cost,
    durations,
    fault,
  };
}

/** What the agent did in a conversation. */
export function countActions(conversation: Conversation): Pick<EpisodeScore, "turns" | "toolCalls" | "toolErrors"> {
  const calls = conversation.filter((step) => step.type === "call");
  return {
    turns: conversation.filter((step) => step.type !== "user").length,
    toolCalls: calls.length,
    toolErrors: count(
      calls.flatMap((step) =>
        step.type === "call" && step.isError ? [`${step.name}: ${errorKind(step.result)}`] : [],
      ),
    ),
  };
}

/** An error without what is particular about it, so that errors of one kind are counted together. */
export function errorKind(result: string): string {
  // What a tool answers may be as long as what a model wrote.
  const kind = result
    .slice(0, 400)
    .replace(/^Error:\s*/, "")
    .replaceAll(/'[^']*'|"[^"]*"/g, "…")
    .split(/\s+/)
    .map((word) => (/\d/.test(word) ? "…" : word))
    .join(" ")
    .trim();
  return kind.length > 80 ? `${kind.slice(0, 80)}…` : kind;
}

export function count(names: readonly string[]): Counts {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return Object.fromEntries(counts);
}
