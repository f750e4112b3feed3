// A summary of an ended episode, for runs that decide and count without reading the episode. An
// episode is tens of kilobytes and a summary a few hundred bytes, so a coordinator can decide about
// episodes that are only on the worker's disk.

import type { Failure, Outcome, StopReason } from "./failure.ts";
import type { WeightSpan } from "./turn.ts";
import type { ModelUsage } from "./user-line.ts";

/** Counts by name, in the order in which the names first occurred. */
export type Counts = Readonly<Record<string, number>>;

/** Summary of an episode that has ended. */
export type EpisodeSummary = {
  readonly id: string;
  readonly groupId: string;
  /** The episode's place in its group. */
  readonly sampleIndex: number;
  readonly taskId: string;
  readonly outcome: Outcome;
  readonly stopReason: StopReason;
  /** The environment's own name for the end; `null` if it has none. */
  readonly ending: string | null;
  /** Set exactly when the outcome is failed. */
  readonly failure: Failure | null;
  /** `null` when the episode was not graded. */
  readonly reward: number | null;
  /** Metrics of its grade. */
  readonly metrics: Readonly<Record<string, number>>;
  /** Engine calls, or replies of an agent behind an API. */
  readonly turns: number;
  readonly sampledTokens: number;
  /** Weight versions at dispatch and at reply of its turns, each pair once, in the order of the turns. */
  readonly weightSpans: readonly Pick<WeightSpan, "dispatch" | "reply">[];
  /** Format errors by code. */
  readonly problems: Counts;
  /** Number of its training rows. */
  readonly samples: number;
  /** Tokens in the loss of those rows. */
  readonly trainedTokens: number;
  /** Sampled tokens in no row, by reason. */
  readonly dropped: Counts;
};

/** Sums over the events of an episode, for the totals of its run. */
export type EventCounts = {
  readonly turns: number;
  readonly sampledTokens: number;
  /**
   * Turns that an earlier process recorded, included in `turns`; this process spent no time on
   * them.
   */
  readonly recordedTurns: number;
  /** Sampled tokens that an earlier process recorded, included in `sampledTokens`. */
  readonly recordedSampledTokens: number;
  readonly promptTokens: number;
  /** Retried engine and model calls. */
  readonly retries: number;
  /** Problems of actions, by code. */
  readonly problems: Counts;
  /** Control tokens that users and tools spelled out, and that the policy read as text. */
  readonly spelledTokens: number;
  /** Sampled tokens with a logprob below -100, included in `sampledTokens`. */
  readonly unlikelyTokens: number;
  /** Turns whose observation differs from the template's output, by `TemplateDeviation`. */
  readonly deviations: Counts;
  /** Tool results that were cut, so that the policy read only the beginning. */
  readonly cutResults: number;
  /** Environments that could not be closed; their episodes still count. */
  readonly closeFailures: number;
  readonly agentUsage: ModelUsage;
  readonly userUsage: ModelUsage;
  readonly judgeUsage: ModelUsage;
};
