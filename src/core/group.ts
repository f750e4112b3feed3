/** What became of a group: decided once, when its last episode has ended, and recorded with the rows that it trains. */
export type GroupRecord = {
  readonly groupId: string;
  readonly taskId: string;
  /** Number of the task in the run. */
  readonly groupIndex: number;
  /** The rows of a dropped group are not written. */
  readonly decision: "kept" | "dropped";
  /** Why it was dropped; `null` when it was kept. */
  readonly reason: string | null;
  /** In the order of their place in the group. */
  readonly episodeIds: readonly string[];
  /** Aligned with `episodeIds`; `null` where an episode was not graded. */
  readonly rewards: readonly (number | null)[];
};
