// Settings of a session, whichever model answers its calls.

import type { SamplingParams, Task } from "../core/index.ts";
import type { EpisodeOptions } from "../rollout/index.ts";

/** What is done about sampling parameters that clients set; see `GatewayOptions`. */
export type ClientSampling = "ignore" | "obey" | "refuse";

export type SessionSettings = {
  readonly id: string;
  readonly groupId: string;
  readonly sampleIndex: number;
  readonly task: Task;
  readonly seed: number;
  readonly sampling: SamplingParams;
  readonly clientSampling: ClientSampling;
  /** Calls in flight at once, at least 1. */
  readonly maxCalls: number;
  /** As of an episode: limits, retries, deadlines, what to do when the server aborts. */
  readonly episode: Pick<
    EpisodeOptions,
    "limits" | "retry" | "turnTimeoutMs" | "engineAbort" | "requestTag" | "seedTurns"
  >;
};
