// What is known of an episode that has ended without reading it: what runs decide and count by. An episode is tens of kilobytes, this
// is a few hundred bytes, so a coordinator decides about episodes that only the worker's disk holds.

import type { Failure, Outcome, StopReason } from "./failure.ts";
import type { WeightSpan } from "./turn.ts";
import type { ModelUsage } from "./user-line.ts";

/** Counts by name, in the order the names first came up. */
export type Counts = Readonly<Record<string, number>>;

/** Of an episode that has ended. */
export type EpisodeSummary = {
  readonly id: string;
  readonly groupId: string;
  /** Its place in its group. */
  readonly sampleIndex: number;
  readonly taskId: string;
  readonly outcome: Outcome;
  readonly stopReason: StopReason;
  /** What the environment itself calls the end; `null`: it has no name for it. */
  readonly ending: string | null;
  /** Set exactly when the outcome is failed. */
  readonly failure: Failure | null;
  /** `null` when the episode was not graded. */
  readonly reward: number | null;
  /** Of its grade. */
  readonly metrics: Readonly<Record<string, number>>;
  /** Engine calls, or replies of an agent behind an API. */
  readonly turns: number;
  readonly sampledTokens: number;
  /** Weight versions at dispatch and at reply of its turns, each pair once, in the order of the turns. */
  readonly weightSpans: readonly Pick<WeightSpan, "dispatch" | "reply">[];
  /** Format errors by code. */
  readonly problems: Counts;
  /** Its training rows. */
  readonly samples: number;
  /** In the loss of those rows. */
  readonly trainedTokens: number;
  /** Sampled tokens in no row, by reason. */
  readonly dropped: Counts;
};

/** Sums over the events of an episode, for the totals of its run. */
export type EventCounts = {
  readonly turns: number;
  readonly sampledTokens: number;
  /** Of `turns`: those that an earlier process recorded; they took none of the time of this one. */
  readonly recordedTurns: number;
  /** Of `sampledTokens`: those that an earlier process recorded. */
  readonly recordedSampledTokens: number;
  readonly promptTokens: number;
  /** Engine and model calls that were tried again. */
  readonly retries: number;
  /** Problems of actions, by code. */
  readonly problems: Counts;
  /** Control tokens that users and tools spelled out, and that were text to the policy. */
  readonly spelledTokens: number;
  /** Of `sampledTokens`: those with a logprob below -100. */
  readonly unlikelyTokens: number;
  /** Turns whose observation is not what the template writes, by `TemplateDeviation`. */
  readonly deviations: Counts;
  /** Results of tools of which the policy read only the beginning. */
  readonly cutResults: number;
  /** Environments that could not be closed; their episodes count. */
  readonly closeFailures: number;
  readonly agentUsage: ModelUsage;
  readonly userUsage: ModelUsage;
  readonly judgeUsage: ModelUsage;
};
