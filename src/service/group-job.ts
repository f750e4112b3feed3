// A request and the episodes it became, as the service knows them.

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
};

/** What stays the same over every restart. */
export type GroupIdentity = {
  readonly groupId: string;
  /** Number of the request in the service. */
  readonly groupIndex: number;
  /** Of the body: a key that comes again must come with the same. */
  readonly bodyHash: string;
};

export type GroupJob = GroupIdentity & {
  readonly request: GroupRequest;
  readonly jobs: readonly EpisodeJob[];
};
