// Settings of a session, regardless of which model answers its calls.

import type { LineageCredit, SamplingParams, Task } from "../core/index.ts";
import type { EpisodeOptions } from "../rollout/index.ts";
import type { ConstraintSettings } from "./session-constraint.ts";
import type { ClientSampling } from "./session-sampling.ts";
import type { ClientTemplate } from "./session-template.ts";

export type SessionSettings = {
  readonly id: string;
  readonly groupId: string;
  readonly sampleIndex: number;
  readonly task: Task;
  readonly seed: number;
  readonly sampling: SamplingParams;
  readonly clientSampling: ClientSampling;
  readonly clientTemplate: ClientTemplate;
  readonly constraints: ConstraintSettings;
  /** The lineages that the reward trains. */
  readonly credit: LineageCredit;
  /**
   * "environment": the session's world answers calls of tools that do not exist, so they count as
   * normal calls.
   */
  readonly unknownTools: "environment" | "loop";
  /** Maximum number of calls in flight, at least 1. */
  readonly maxCalls: number;
  /**
   * Same as for an episode: limits, retries, deadlines, and the reaction when the server aborts.
   */
  readonly episode: Pick<
    EpisodeOptions,
    "limits" | "retry" | "turnTimeoutMs" | "engineAbort" | "requestTag" | "seedTurns"
  >;
};
