// A group and the episodes it became, as the service knows them.

import type { EpisodeJob } from "./episode-job.ts";
import type { PolicyRequest } from "./service-parts.ts";

/** Episodes of one task that belong together; a single episode is a group of one. */
export type GroupRequest = {
  readonly split: string | null;
  readonly taskIndex: number;
  readonly samples: number;
  /** `null`: derived from the service's seed and the group's id. */
  readonly seed: number | null;
  readonly policy: PolicyRequest;
  /** Which time its producer plays the task; 1 for what was asked for alone. */
  readonly visit: number;
  /** Further episodes that may be played in place of those without a reward. */
  readonly replacements: number;
};

/** What stays the same over every restart. */
export type GroupIdentity = {
  readonly groupId: string;
  /** Number of the group in the service. */
  readonly groupIndex: number;
  /** Of the body: a key that comes again must come with the same. */
  readonly bodyHash: string;
  /** The producer it belongs to; `null`: it was asked for alone. */
  readonly producerId: string | null;
};

export type GroupJob = GroupIdentity & {
  readonly request: GroupRequest;
  /** Grows where episodes are replaced. */
  readonly jobs: EpisodeJob[];
  /** A further episode of the group, which nobody knows yet. */
  readonly another: (sampleIndex: number) => EpisodeJob;
};
