// Compares two or more runs of the same tasks, task by task: each later run with the first. Tasks
// are the same if their content is; a task whose content changed between runs is counted, not
// compared.

import { bootstrapInterval, type PairedOptions, signFlipTest } from "./paired.ts";
import { type Interval, isSuccess } from "./rates.ts";

export type ComparedEpisode = {
  /** Display name of the episode within its run: id, or number. */
  readonly id: string;
  /** `null` if not graded; not counted in any rate. */
  readonly reward: number | null;
};

export type ComparedTask = {
  readonly taskId: string;
  /** Hash of everything that defines the task; `null` if not recorded, in which case its id is used. */
  readonly contentHash: string | null;
  readonly episodes: readonly ComparedEpisode[];
};

/** The data of a run that a comparison needs. */
export type ComparedRun = {
  /** Display name: folder or file. */
  readonly name: string;
  readonly tasks: readonly ComparedTask[];
};

/** A task in one run. */
export type TaskInRun = {
  /** Number of graded episodes. */
  readonly trials: number;
  readonly successes: number;
  readonly meanReward: number;
  /** All episodes, graded or not. */
  readonly episodes: readonly ComparedEpisode[];
};

/**
 * Change of a task compared with the first run. "lost": it passed in more than half of its trials,
 * and now in at most half; "gained": the reverse; "changed": its rates differ otherwise; "same": no
 * difference.
 */
export type RowChange = "lost" | "gained" | "changed" | "same";

export type ComparisonRow = {
  readonly taskId: string;
  readonly contentHash: string | null;
  /** One entry per run; `null` if the run has no graded episode of the task. */
  readonly runs: readonly (TaskInRun | null)[];
  /** One entry per run except the first; `null` if one of the two is missing. */
  readonly changes: readonly (RowChange | null)[];
};

export type MeanDifference = {
  /** Mean of the first run, over the tasks that both runs have. */
  readonly baseline: number;
  readonly other: number;
  /** Other minus baseline, as the mean over tasks. */
  readonly mean: number;
  /** 95 % interval, by a bootstrap over tasks; `null` for fewer than two tasks. */
  readonly interval: Interval | null;
  /** Two-sided p-value of the sign-flip test. Not corrected for multiple runs. */
  readonly p: number;
  /** False if `p` is estimated from random signs. */
  readonly isExact: boolean;
};

/** Comparison of a later run with the first. */
export type ComparisonPair = {
  readonly baseline: string;
  readonly other: string;
  /** Number of compared tasks: those with a graded episode in both runs. */
  readonly tasks: number;
  /** Number of tasks compared by id, because a run does not record their content. */
  readonly byId: number;
  readonly unmatched: {
    /** Number of tasks that only the first run has, and that only the other has. */
    readonly baselineOnly: number;
    readonly otherOnly: number;
    /** Number of tasks of both runs without a graded episode in one of them. */
    readonly ungraded: number;
    /**
     * Number of tasks with equal ids but different content; also counted among those that only one
     * run has.
     */
    readonly contentChanged: number;
  };
  readonly lost: number;
  readonly gained: number;
  /** `null` if no tasks are compared. */
  readonly passRate: MeanDifference | null;
  readonly reward: MeanDifference | null;
};

export type Comparison = {
  readonly format: 1;
  readonly seed: number;
  readonly runs: readonly {
    readonly name: string;
    readonly tasks: number;
    readonly episodes: number;
    readonly graded: number;
  }[];
  /** One pair per run except the first. */
  readonly pairs: readonly ComparisonPair[];
  /**
   * Tasks of the first run and at least one other: lost ones first, then gained, then the rest,
   * largest difference first.
   */
  readonly rows: readonly ComparisonRow[];
};

/** Compares each later run with the first. Throws a `RangeError` for fewer than two runs. */
export function compareTasks(runs: readonly ComparedRun[], options: PairedOptions = {}): Comparison {
  const [first, ...others] = runs.map(indexRun);
  if (first === undefined || others.length === 0) {
    throw new RangeError(`Cannot compare runs: there are ${runs.length}, expected at least 2.`);
  }
  const found = others.map((other) => matchesOf(first, other));
  const pairs = others.map((other, at) => pairOf(first, other, found[at]!, options));
  const rows = [...first.tasks.values()].flatMap((task): ComparisonRow[] => {
    const matches = found.map((match) => match.of.get(task));
    if (matches.every((match) => match === undefined)) return [];
    const mine = inRun(task);
    const theirs = matches.map((match) => (match === undefined ? null : inRun(match)));
    const changes = theirs.map((other) => (mine === null || other === null ? null : changeOf(mine, other)));
    return [{ taskId: task.taskId, contentHash: task.contentHash, runs: [mine, ...theirs], changes }];
  });
  return {
    format: 1,
    seed: options.seed ?? 0,
    runs: runs.map(({ name }, at) => {
      const tasks = [...(at === 0 ? first : others[at - 1]!).tasks.values()];
      const episodes = tasks.flatMap((task) => task.episodes);
      const graded = episodes.filter(({ reward }) => reward !== null).length;
      return { name, tasks: tasks.length, episodes: episodes.length, graded };
    }),
    pairs,
    rows: rows.toSorted(byUrgency),
  };
}

/**
 * The result of each pair in one sentence: for the first line of a page, a terminal, a pull
 * request.
 */
export function comparisonSentence({ baseline, other, tasks, passRate, reward, lost, gained }: ComparisonPair): string {
  if (passRate === null || reward === null) return `${other} and ${baseline} have no graded task in common.`;
  // If no reward is ever 1, as in a game with scores, only the mean is informative.
  const isPass = passRate.baseline > 0 || passRate.other > 0;
  const shown = isPass ? passRate : reward;
  const text = (value: number): string =>
    (isPass ? (100 * value).toFixed(1) : value.toFixed(3)).replace(/^-(0(\.0*)?)$/, "$1");
  const signed = (value: number): string => `${value > 0 ? "+" : ""}${text(value)}`;
  const unit = isPass ? " %" : "";
  const { interval, mean, p } = shown;
  const verdict = p >= 0.05 ? "no clear difference" : mean > 0 ? "better" : "worse";
  return [
    `${other} against ${baseline}: ${verdict}.`,
    `${isPass ? "Pass rate" : "Mean reward"} ${text(shown.other)}${unit} against ${text(shown.baseline)}${unit}`,
    `over ${counted(tasks)} task${tasks === 1 ? "" : "s"}: ${signed(mean)}${isPass ? " points" : ""}`,
    ...(interval === null ? [] : [`[${signed(interval.low)} to ${signed(interval.high)}]`]),
    `(p ${pText(p)})${isPass ? `, ${counted(lost)} lost, ${counted(gained)} gained` : ""}.`,
  ].join(" ");
}

/** A p-value for messages, such as "= 0.0031" or "< 0.0001". */
function pText(p: number): string {
  return p < 0.0001 ? "< 0.0001" : `= ${p.toFixed(p < 0.01 ? 4 : 2)}`;
}

function counted(count: number): string {
  return count.toLocaleString("en-US");
}

type IndexedRun = {
  readonly name: string;
  /**
   * Tasks by content, or by id if the content is not recorded. Tasks with equal content are one
   * task.
   */
  readonly tasks: ReadonlyMap<string, ComparedTask>;
  readonly byId: ReadonlyMap<string, ComparedTask>;
};

function indexRun({ name, tasks }: ComparedRun): IndexedRun {
  const indexed = new Map<string, ComparedTask>();
  for (const task of tasks) {
    const key = task.contentHash ?? `id ${task.taskId}`;
    const known = indexed.get(key);
    indexed.set(key, known === undefined ? task : { ...known, episodes: [...known.episodes, ...task.episodes] });
  }
  return { name, tasks: indexed, byId: new Map([...indexed.values()].map((task) => [task.taskId, task])) };
}

type Matches = {
  /** Maps a task of the first run to that of the other. */
  readonly of: ReadonlyMap<ComparedTask, ComparedTask>;
  readonly byId: number;
  readonly contentChanged: number;
};

function matchesOf(first: IndexedRun, other: IndexedRun): Matches {
  const of = new Map<ComparedTask, ComparedTask>();
  let byId = 0;
  let contentChanged = 0;
  for (const [key, task] of first.tasks) {
    const same = task.contentHash === null ? undefined : other.tasks.get(key);
    if (same !== undefined) {
      of.set(task, same);
      continue;
    }
    const named = other.byId.get(task.taskId);
    if (named === undefined) continue;
    if (task.contentHash !== null && named.contentHash !== null) {
      contentChanged++;
    } else {
      byId++;
      of.set(task, named);
    }
  }
  return { of, byId, contentChanged };
}

function pairOf(first: IndexedRun, other: IndexedRun, matches: Matches, options: PairedOptions): ComparisonPair {
  const both = [...matches.of].map(([mine, theirs]) => [inRun(mine), inRun(theirs)] as const);
  const graded = both.flatMap(([mine, theirs]) => (mine === null || theirs === null ? [] : [[mine, theirs] as const]));
  const changes = graded.map(([mine, theirs]) => changeOf(mine, theirs));
  return {
    baseline: first.name,
    other: other.name,
    tasks: graded.length,
    byId: matches.byId,
    unmatched: {
      baselineOnly: first.tasks.size - matches.of.size,
      otherOnly: other.tasks.size - new Set(matches.of.values()).size,
      ungraded: both.length - graded.length,
      contentChanged: matches.contentChanged,
    },
    lost: changes.filter((change) => change === "lost").length,
    gained: changes.filter((change) => change === "gained").length,
    passRate: differenceOf(graded, passRateOf, options),
    reward: differenceOf(graded, ({ meanReward }) => meanReward, options),
  };
}

function differenceOf(
  tasks: readonly (readonly [TaskInRun, TaskInRun])[],
  valueOf: (task: TaskInRun) => number,
  options: PairedOptions,
): MeanDifference | null {
  if (tasks.length === 0) return null;
  // Sorted, because episodes end in a different order each time, and resampling must not depend on
  // it.
  const values = tasks
    .map(([mine, theirs]) => [valueOf(mine), valueOf(theirs)] as const)
    .toSorted((one, other) => one[0] - other[0] || one[1] - other[1]);
  const differences = values.map(([mine, theirs]) => theirs - mine);
  const all = values.flat();
  const least = all.reduce((a, b) => Math.min(a, b), 0);
  const most = all.reduce((a, b) => Math.max(a, b), 1);
  const mean = (list: readonly number[]): number => list.reduce((sum, value) => sum + value, 0) / list.length;
  return {
    baseline: mean(values.map(([mine]) => mine)),
    other: mean(values.map(([, theirs]) => theirs)),
    mean: mean(differences),
    interval: bootstrapInterval(differences, { ...options, range: most - least }),
    ...signFlipTest(differences, options),
  };
}

function inRun({ episodes }: ComparedTask): TaskInRun | null {
  const rewards = episodes.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  if (rewards.length === 0) return null;
  const sum = rewards.reduce((all, reward) => all + reward, 0);
  return {
    trials: rewards.length,
    successes: rewards.filter(isSuccess).length,
    meanReward: sum / rewards.length,
    episodes,
  };
}

function passRateOf({ trials, successes }: TaskInRun): number {
  return successes / trials;
}

function changeOf(mine: TaskInRun, theirs: TaskInRun): RowChange {
  const [before, after] = [passRateOf(mine), passRateOf(theirs)];
  if (before > 0.5 && after <= 0.5) return "lost";
  if (before <= 0.5 && after > 0.5) return "gained";
  return before === after && Math.abs(mine.meanReward - theirs.meanReward) < 1e-9 ? "same" : "changed";
}

const urgency: readonly RowChange[] = ["lost", "gained", "changed", "same"];

function byUrgency(a: ComparisonRow, b: ComparisonRow): number {
  return rank(a) - rank(b) || largestDifference(b) - largestDifference(a) || compareIds(a.taskId, b.taskId);
}

function rank({ changes }: ComparisonRow): number {
  return Math.min(...changes.map((change) => (change === null ? urgency.length : urgency.indexOf(change))));
}

function largestDifference({ runs: [mine, ...others] }: ComparisonRow): number {
  const differences = others.map((other) =>
    mine === null || mine === undefined || other === null
      ? 0
      : Math.max(Math.abs(passRateOf(other) - passRateOf(mine)), Math.abs(other.meanReward - mine.meanReward)),
  );
  return Math.max(...differences);
}

/** Numeric collation: task 9 precedes task 10. */
const compareIds = new Intl.Collator("en", { numeric: true }).compare;
