// Aggregated scores of many episodes: pass^k, pass@k, mean reward with an interval, tasks, errors,
// faults, cost and time. Only numbers; they are displayed elsewhere.

import type { Counts, Durations, EpisodeScore } from "./episode-score.ts";
import { type Fault, faults } from "./fault-attribution.ts";
import {
  type Interval,
  isSuccess,
  meanInterval,
  type PassRate,
  passRates,
  type TaskTally,
} from "../statistics/index.ts";

export type TaskResult = {
  readonly taskId: string;
  readonly taskIndex: number;
  /** Number of episodes, graded or not. */
  readonly episodes: number;
  /** Number of graded episodes. */
  readonly trials: number;
  readonly successes: number;
  readonly meanReward: number | null;
  /** Faults of its failures. */
  readonly faults: Counts;
};

export type Evaluation = {
  readonly episodes: number;
  readonly graded: number;
  readonly successes: number;
  readonly meanReward: number | null;
  /** Confidence interval of the mean reward, over tasks, at a level of 95 %. */
  readonly rewardInterval: Interval | null;
  readonly passRates: readonly PassRate[];
  /** Results in the order of task indexes. */
  readonly tasks: readonly TaskResult[];
  readonly endings: Counts;
  /** Number of tool calls; `null` if it was not recorded for every episode. */
  readonly toolCalls: number | null;
  readonly toolErrors: Counts;
  readonly problems: Counts;
  readonly faults: Readonly<Record<Fault, number>>;
  readonly faultRules: Counts;
  /** Cost of the agent, in US dollars; `null` if it is not known for every episode. */
  readonly agentCost: number | null;
  /** Cost of the user, in US dollars; `null` if it is not known for every episode. */
  readonly userCost: number | null;
  /** Durations of episodes, in milliseconds; `null` if they are not known. */
  readonly durations: {
    readonly mean: number;
    readonly median: number;
    readonly p95: number;
    readonly byPart: Durations;
  } | null;
  /** Mean number of turns; `null` if it was not recorded for every episode. */
  readonly meanTurns: number | null;
};

export type EvaluationOptions = {
  /** Values of k to compute. Default: 1 to the number of trials that every task has. */
  readonly ks?: readonly number[];
};

/** Aggregates scores. Episodes without a reward are counted, but do not enter any rate. */
export function evaluationOf(scores: readonly EpisodeScore[], options: EvaluationOptions = {}): Evaluation {
  const tasks = [...groupByTask(scores).values()].map(taskResult).toSorted((a, b) => a.taskIndex - b.taskIndex);
  const tallies: TaskTally[] = tasks.map(({ taskId, trials, successes }) => ({ taskId, trials, successes }));
  const graded = scores.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  const means = tasks.flatMap(({ meanReward }) => (meanReward === null ? [] : [meanReward]));
  return {
    episodes: scores.length,
    graded: graded.length,
    successes: graded.filter(isSuccess).length,
    meanReward: graded.length === 0 ? null : sum(graded) / graded.length,
    rewardInterval: meanInterval(means),
    passRates: passRates(tallies, options.ks),
    tasks,
    endings: addUp(scores.map(({ ending }) => ({ [ending]: 1 }))),
    toolCalls: sumOrNull(scores.map(({ toolCalls }) => toolCalls)),
    toolErrors: addUp(scores.map(({ toolErrors }) => toolErrors)),
    problems: addUp(scores.map(({ problems }) => problems)),
    faults: faultCounts(scores),
    faultRules: addUp(scores.map(({ fault }) => (fault === null ? {} : { [`${fault.fault}: ${fault.rule}`]: 1 }))),
    agentCost: sumOrNull(scores.map(({ agentCost }) => agentCost)),
    userCost: sumOrNull(scores.map(({ userCost }) => userCost)),
    durations: durationsOf(scores),
    meanTurns: meanOrNull(scores.map(({ turns }) => turns)),
  };
}

function groupByTask(scores: readonly EpisodeScore[]): ReadonlyMap<string, readonly EpisodeScore[]> {
  const groups = new Map<string, EpisodeScore[]>();
  for (const score of scores) {
    const group = groups.get(score.taskId);
    if (group === undefined) groups.set(score.taskId, [score]);
    else group.push(score);
  }
  return groups;
}

function taskResult(scores: readonly EpisodeScore[]): TaskResult {
  const rewards = scores.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  return {
    taskId: scores[0]?.taskId ?? "",
    taskIndex: scores[0]?.taskIndex ?? 0,
    episodes: scores.length,
    trials: rewards.length,
    successes: rewards.filter(isSuccess).length,
    meanReward: rewards.length === 0 ? null : sum(rewards) / rewards.length,
    faults: addUp(scores.map(({ fault }) => (fault === null ? {} : { [fault.fault]: 1 }))),
  };
}

function faultCounts(scores: readonly EpisodeScore[]): Record<Fault, number> {
  const counts = addUp(scores.map(({ fault }) => (fault === null ? {} : { [fault.fault]: 1 })));
  return Object.fromEntries(faults.map((fault) => [fault, counts[fault] ?? 0])) as Record<Fault, number>;
}

function durationsOf(scores: readonly EpisodeScore[]): Evaluation["durations"] {
  const known = scores.flatMap(({ durations }) => (durations === null ? [] : [durations]));
  if (known.length === 0 || known.length < scores.length) return null;
  const whole = known.map(({ policy, user, tools }) => policy + user + tools).toSorted((a, b) => a - b);
  const at = (share: number): number => whole[Math.min(whole.length - 1, Math.floor(share * whole.length))] ?? 0;
  const mean = (part: (one: Durations) => number): number => sum(known.map(part)) / known.length;
  return {
    mean: sum(whole) / whole.length,
    median: at(0.5),
    p95: at(0.95),
    byPart: {
      policy: mean(({ policy }) => policy),
      user: mean(({ user }) => user),
      tools: mean(({ tools }) => tools),
    },
  };
}

/** Sums counts by name, the most frequent first. */
function addUp(all: readonly Counts[]): Counts {
  const counts = new Map<string, number>();
  for (const one of all) {
    for (const [name, number] of Object.entries(one)) counts.set(name, (counts.get(name) ?? 0) + number);
  }
  return Object.fromEntries([...counts].toSorted(([, a], [, b]) => b - a));
}

/** Sum of values; `null` if any of them is unknown. */
function sumOrNull(values: readonly (number | null)[]): number | null {
  return values.reduce((total, value) => (total === null || value === null ? null : total + value), 0);
}

function meanOrNull(values: readonly (number | null)[]): number | null {
  const total = sumOrNull(values);
  return total === null || values.length === 0 ? null : total / values.length;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
