// An ended episode in a few numbers: what a client that waits for it wants to know, and all that is remembered of it.

import { attribute, type Episode, type Failure, type Outcome, type StopReason } from "../core/index.ts";

export type EpisodeSummary = {
  readonly outcome: Outcome;
  readonly stopReason: StopReason;
  readonly reward: number | null;
  readonly failure: Failure | null;
  readonly metrics: Readonly<Record<string, number>>;
  readonly turns: number;
  readonly sampledTokens: number;
  /** In the order they first sampled; `null` stands for an engine that names none. */
  readonly weightVersions: readonly (string | null)[];
  /** How often each code came. */
  readonly problems: Readonly<Record<string, number>>;
};

/** Of an episode that was cancelled before it began. */
export const notStarted: EpisodeSummary = Object.freeze({
  outcome: "aborted",
  stopReason: "cancelled",
  reward: null,
  failure: null,
  metrics: {},
  turns: 0,
  sampledTokens: 0,
  weightVersions: [],
  problems: {},
});

export function summarize(episode: Episode): EpisodeSummary {
  const { turns } = episode.trajectory;
  const problems: Record<string, number> = {};
  for (const { code } of episode.problems) problems[code] = (problems[code] ?? 0) + 1;
  return {
    outcome: episode.outcome,
    stopReason: episode.stopReason,
    reward: episode.reward,
    failure: episode.failure,
    metrics: episode.grade?.metrics ?? {},
    turns: turns.length,
    sampledTokens: turns.reduce((sum, { sampledTokens }) => sum + sampledTokens.length, 0),
    weightVersions: [...new Set(turns.flatMap(({ weightSpans }) => weightSpans.map(({ reply }) => reply)))],
    problems,
  };
}

/** A player or store that rejects: a mistake of configuration, broken accounting, a full disk. The client is told, nothing is trained. */
export function notPlayed(error: unknown): EpisodeSummary {
  const { failure } = attribute(error, "environment", "not-played");
  return { ...notStarted, outcome: "failed", stopReason: "fault", failure };
}
