// The task of each group in a curriculum, which prefers tasks that the policy can learn from: tasks
// are in pools by how often they were passed, and a strategy draws from the pools. A draw depends on
// the plan, not on the clock: the draw of group n uses exactly the groups before n - lookahead. So
// equal seeds give equal tasks, in whichever order groups finish; where those groups are not decided
// yet, the source returns "later".

import type { Task, Taskset } from "../core/environment.ts";
import { requireWhole } from "../lib/limits.ts";
import { createRandom, deriveSeed, type Random } from "../lib/random.ts";
import type { GroupResult, TaskSource } from "./groups.ts";

/** A copy sorted by priority, the highest first; equal priorities keep their order. */
export function byPriority(taskIndexes: readonly number[], priorityOf: (taskIndex: number) => number): number[] {
  const priorities = new Map(taskIndexes.map((taskIndex) => [taskIndex, priorityOf(taskIndex)]));
  return taskIndexes.toSorted((left, right) => priorities.get(right)! - priorities.get(left)!);
}

/** Results of one task so far. */
export type TaskRecord = {
  readonly taskIndex: number;
  /**
   * Number of groups of it that were drawn so far, in this run and in known earlier ones, without
   * cancelled ones.
   */
  readonly visits: number;
  /** Number of its graded episodes, and of those with full reward. */
  readonly graded: number;
  readonly passed: number;
};

/** Difficulty of a task for the policy; "unknown" before anything was graded. */
export type DifficultyPool = "unknown" | "easy" | "medium" | "hard";

export type PoolBounds = {
  /** Pass rate from which a task is easy. Default: 0.9. */
  readonly easy: number;
  /** Pass rate up to which a task is hard. Default: 0.1. */
  readonly hard: number;
};

export const defaultPools: PoolBounds = Object.freeze({ easy: 0.9, hard: 0.1 });

export function poolOf({ graded, passed }: TaskRecord, { easy, hard }: PoolBounds = defaultPools): DifficultyPool {
  if (graded === 0) return "unknown";
  const rate = passed / graded;
  if (rate >= easy) return "easy";
  return rate <= hard ? "hard" : "medium";
}

/** Draws the task of a group. Pure: equal records and equal randomness give the same task. Returns a `taskIndex` of `tasks`. */
export type TaskStrategy = (tasks: readonly TaskRecord[], random: Random) => number;

export type PoolWeights = Readonly<Record<DifficultyPool, number>>;

/**
 * Tasks that are passed sometimes teach most; the others keep some weight, since the policy
 * changes.
 */
export const defaultPoolWeights: PoolWeights = Object.freeze({ unknown: 1, medium: 1, hard: 0.25, easy: 0.1 });

/**
 * Minimum share of its pool's weight that an unknown task keeps: a server that grades it may come
 * back.
 */
const leastShare = 1 / 64;

/**
 * Draws by the weight of a task's pool, halved for each visit without a grade: otherwise a task
 * that cannot be graded would stay unknown forever.
 */
export function drawByPools(weights: PoolWeights = defaultPoolWeights, pools: PoolBounds = defaultPools): TaskStrategy {
  return (tasks, random) => {
    const shares = tasks.map((task) => {
      const weight = weights[poolOf(task, pools)];
      return task.graded > 0 ? weight : weight * Math.max(leastShare, 0.5 ** task.visits);
    });
    let left = random.next() * shares.reduce((sum, share) => sum + share, 0);
    for (const [place, share] of shares.entries()) {
      left -= share;
      if (left < 0) return tasks[place]!.taskIndex;
    }
    return tasks.at(-1)!.taskIndex;
  };
}

export type CurriculumOptions = {
  readonly taskIndexes: readonly number[];
  readonly seed: number;
  /** Default: {@link drawByPools}. */
  readonly strategy?: TaskStrategy;
  /**
   * Number of preceding groups whose results a draw does not use. A larger number keeps more groups
   * in flight at once, a smaller one makes the curriculum follow the policy more closely. At least
   * 1. Default: 16.
   */
  readonly lookahead?: number;
  /** Results of earlier runs. Default: none. */
  readonly known?: readonly (Omit<TaskRecord, "visits"> & Partial<Pick<TaskRecord, "visits">>)[];
};

/** Throws a `RangeError` for a lookahead below 1 and an empty list of tasks. */
export function createCurriculum(options: CurriculumOptions): TaskSource {
  const { taskIndexes, seed, strategy = drawByPools(), lookahead = 16, known = [] } = options;
  requireWhole("make a curriculum", "lookahead", lookahead);
  if (taskIndexes.length === 0) throw new RangeError("Cannot create a curriculum: there is no task to draw from.");
  const records = new Map<number, TaskRecord>(
    taskIndexes.map((taskIndex) => [taskIndex, { taskIndex, visits: 0, graded: 0, passed: 0 }]),
  );
  for (const { taskIndex, graded, passed, visits = 0 } of known) {
    if (records.has(taskIndex)) records.set(taskIndex, { taskIndex, visits, graded, passed });
  }
  const results = new Map<number, GroupResult>();
  /** The records contain the results of all groups before this one. */
  let seen = 0;

  const see = ({ taskIndex, rewards, isCancelled }: GroupResult): void => {
    const record = records.get(taskIndex);
    if (record === undefined) return;
    const passed = rewards.filter((reward) => reward >= 1 - 1e-6).length;
    records.set(taskIndex, {
      taskIndex,
      visits: record.visits - (isCancelled ? 1 : 0),
      graded: record.graded + rewards.length,
      passed: record.passed + passed,
    });
  };

  return {
    next: (groupIndex) => {
      for (; seen <= groupIndex - lookahead; seen++) {
        const result = results.get(seen);
        if (result === undefined) return "later";
        results.delete(seen);
        see(result);
      }
      const drawn = strategy([...records.values()], createRandom(deriveSeed(seed, "curriculum", groupIndex)));
      const record = records.get(drawn);
      if (record === undefined) {
        throw new RangeError(`Cannot draw a task: the strategy chose ${drawn}, which is not one of the run's tasks.`);
      }
      records.set(drawn, { ...record, visits: record.visits + 1 });
      return drawn;
    },
    report: (result) => void results.set(result.groupIndex, result),
  };
}

/**
 * The task at `index`, or one drawn uniformly by the seed if `index` is `null`. (The reference can
 * draw one index too many.)
 */
export function chooseTask(taskset: Taskset, index: number | null, options: { readonly seed: number }): Task {
  return taskset.task(
    index ?? createRandom(deriveSeed(options.seed, "choose-task", taskset.split)).integer(taskset.size),
  );
}
