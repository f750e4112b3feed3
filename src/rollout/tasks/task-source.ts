// Which task the next group plays. The plain source goes through a list; a curriculum (`curriculum.ts`) looks at what the
// policy can do. A source is asked in the order of the plan and told of every group that is decided.

/** What became of a group. `rewards` are of its graded episodes; none for a group that was cancelled. */
export type GroupResult = {
  readonly groupIndex: number;
  readonly taskIndex: number;
  readonly rewards: readonly number[];
};

export interface TaskSource {
  /**
   * The index of the task of group `groupIndex`; asked once for each group, in order, unless the answer was "later": it
   * cannot say before further groups are decided. `null`: there are no further groups.
   */
  next(groupIndex: number): number | "later" | null;
  report(result: GroupResult): void;
}

/** The tasks in their order, and over again `passes` times in all. */
export function tasksInOrder(taskIndexes: readonly number[], options: { readonly passes: number }): TaskSource {
  const groups = taskIndexes.length * options.passes;
  return {
    next: (groupIndex) => (groupIndex < groups ? taskIndexes[groupIndex % taskIndexes.length]! : null),
    report: () => undefined,
  };
}

/** A copy in which tasks of higher priority come first; equals keep their order. */
export function byPriority(taskIndexes: readonly number[], priorityOf: (taskIndex: number) => number): number[] {
  const priorities = new Map(taskIndexes.map((taskIndex) => [taskIndex, priorityOf(taskIndex)]));
  return taskIndexes.toSorted((left, right) => priorities.get(right)! - priorities.get(left)!);
}
