// The totals of a run so far. Counted as events arrive, without keeping ended episodes, so that a
// run of any length needs the same memory. Numbers for display and for records; nothing is decided
// here.

import {
  addUsage,
  type Counts,
  countUnlikely,
  type EpisodeEvent,
  type EpisodeSummary,
  type EventCounts,
  freeUsage,
  type GroupRecord,
  type Outcome,
  type SamplingParams,
} from "../core/index.ts";
import type { EndedEpisode } from "./episode-runner.ts";
import { addCount, setOwn } from "../lib/counts.ts";

/** Sums over the events of a run, and counts of its episodes and groups. */
export type RunTotals = Omit<EventCounts, "agentUsage" | "userUsage" | "judgeUsage"> & {
  readonly episodesPlanned: number;
  readonly episodesStarted: number;
  readonly episodesFinished: number;
  /** Episodes that had ended in earlier processes, included in `episodesFinished`. */
  readonly recordedEpisodes: number;
  readonly groupsPlanned: number;
  /** Groups that are decided. */
  readonly groupsFinished: number;
  /**
   * Number of groups to keep, no matter how many must run for it; `null`: each planned group runs
   * once.
   */
  readonly groupsTarget: number | null;
  readonly groupsKept: number;
  /** Dropped groups, by reason. */
  readonly groupsDropped: Counts;
  /** Finished groups with zero variance, whose graded rewards are all equal: they teach nothing. */
  readonly groupsWithoutSignal: number;
  /**
   * Finished groups of tasks that never had a graded episode, by task: those with the most groups,
   * at most 100.
   */
  readonly ungradedTasks: Counts;
  readonly outcomes: Readonly<Record<Outcome, number>>;
  readonly stopReasons: Counts;
  /** Episodes by the environment's own name for their end, where it has one; see `endingOf()`. */
  readonly endings: Counts;
  /** Episodes with a reward. */
  readonly graded: number;
  /** Graded episodes whose reward is 1 (within 1e-6). */
  readonly passed: number;
  /** Share of the graded episodes that passed; `null` while there are none. */
  readonly passRate: number | null;
  readonly meanReward: number | null;
  /** Failures by `boundary/code`. */
  readonly failures: Counts;
  /** Message of the first failure of each `boundary/code`. */
  readonly firstFailures: Readonly<Record<string, string>>;
  /**
   * Episodes that ended before their first turn, so that their reward does not come from the
   * policy; included in `graded`.
   */
  readonly gradedWithoutTurn: number;
  /** Samples of kept groups. */
  readonly samples: number;
  readonly trainedTokens: number;
  /** Sampled tokens in no sample, by reason. */
  readonly droppedTokens: Counts;
  /**
   * Model calls of an agent behind an API; its turns are counted like others, but its tokens do not
   * count as sampled.
   */
  readonly agentModelCalls: number;
  /** US dollars; `null` when a price is unknown. */
  readonly agentCost: number | null;
  readonly userModelCalls: number;
  /** US dollars; `null` when a price is unknown. */
  readonly userCost: number | null;
  /** Calls of models that grade. */
  readonly judgeModelCalls: number;
  /** US dollars; `null` when a price is unknown. */
  readonly judgeCost: number | null;
  /** Episodes that may be in flight now. */
  readonly concurrency: number;
  /** Time since this process began the run. */
  readonly elapsedMs: number;
};

/** Rates of this process, without the turns of earlier processes, which took none of its time. */
export function ratesOf({ elapsedMs, ...totals }: RunTotals): {
  readonly turnsPerSecond: number;
  readonly sampledTokensPerSecond: number;
} {
  const seconds = Math.max(elapsedMs, 1) / 1000;
  return {
    turnsPerSecond: (totals.turns - totals.recordedTurns) / seconds,
    sampledTokensPerSecond: (totals.sampledTokens - totals.recordedSampledTokens) / seconds,
  };
}

/** Maximum number of named tasks; a run whose server has failed has many. */
const mostUngraded = 100;

type Planned = { readonly groups: number; readonly groupSize: number; readonly target: number | null };

/** Without a prototype, because names may come from foreign code. */
const noCounts = <T = number>() => Object.create(null) as Record<string, T>;

/** Sums a run. Not a log: single contributions cannot be removed. */
export class TotalsCounter {
  readonly #planned: Planned;
  readonly #now: () => number;
  readonly #start: number;
  readonly #counted = {
    episodesStarted: 0,
    episodesFinished: 0,
    recordedEpisodes: 0,
    groupsFinished: 0,
    groupsKept: 0,
    groupsWithoutSignal: 0,
    graded: 0,
    gradedWithoutTurn: 0,
    passed: 0,
    turns: 0,
    sampledTokens: 0,
    recordedTurns: 0,
    recordedSampledTokens: 0,
    promptTokens: 0,
    spelledTokens: 0,
    unlikelyTokens: 0,
    retries: 0,
    cutResults: 0,
    closeFailures: 0,
    samples: 0,
    trainedTokens: 0,
    outcomes: { completed: 0, truncated: 0, aborted: 0, failed: 0 },
    groupsDropped: noCounts(),
    stopReasons: noCounts(),
    endings: noCounts(),
    failures: noCounts(),
    firstFailures: noCounts<string>(),
    problems: noCounts(),
    deviations: noCounts(),
    droppedTokens: noCounts(),
  };
  /** Finished groups without a grade, by task; `null` once one of its episodes was graded. */
  readonly #ungraded = new Map<string, number | null>();
  #rewardSum = 0;
  #agentUsage = freeUsage;
  #userUsage = freeUsage;
  #judgeUsage = freeUsage;

  constructor(planned: Planned, now: () => number) {
    this.#planned = planned;
    this.#now = now;
    this.#start = now();
  }

  start(): void {
    this.#counted.episodesStarted++;
  }

  /** Counts an event while the episode runs, so that rates are right before the first episode ends. */
  event(event: EpisodeEvent): void {
    const counted = this.#counted;
    if (event.type === "turn") {
      counted.turns++;
      counted.retries += event.attempts.length;
      counted.sampledTokens += event.turn.sampledTokens.length;
      counted.promptTokens += event.usage.promptTokens;
      counted.spelledTokens += event.turn.spelledTokens;
      counted.unlikelyTokens += countUnlikely(event.turn);
      if (event.turn.deviation !== null) addCount(counted.deviations, event.turn.deviation);
    } else if (event.type === "user-line") {
      this.#userUsage = addUsage(this.#userUsage, event.line.usage);
    } else if (event.type === "judgement") {
      this.#judgeUsage = addUsage(this.#judgeUsage, event.judgement.usage);
      counted.retries += event.judgement.attempts.length;
    } else if (event.type === "agent-reply") {
      counted.turns++;
      counted.retries += event.attempts.length;
      this.#agentUsage = addUsage(this.#agentUsage, event.usage);
    } else if (event.type === "decision") {
      for (const problem of event.decision.problems) addCount(counted.problems, problem.code);
    } else if (event.type === "tool-result" && event.cutFrom !== null) {
      counted.cutResults++;
    } else if (event.type === "close-failure") {
      counted.closeFailures++;
    }
  }

  /** Counts an event that an earlier process recorded. */
  recorded(event: EpisodeEvent): void {
    const { turns, sampledTokens } = this.#counted;
    this.event(event);
    // Only a recorded restart adds its usage: in a live run, the events that it sums were already
    // counted.
    if (event.type === "restart") {
      this.#agentUsage = addUsage(this.#agentUsage, event.usage.agent);
      this.#userUsage = addUsage(this.#userUsage, event.usage.user);
      this.#judgeUsage = addUsage(this.#judgeUsage, event.usage.judge);
    }
    this.#counted.recordedTurns += this.#counted.turns - turns;
    this.#counted.recordedSampledTokens += this.#counted.sampledTokens - sampledTokens;
  }

  finish({ summary: episode, origin, counts }: EndedEpisode): void {
    const counted = this.#counted;
    if (counts !== null) this.#add(counts);
    counted.episodesFinished++;
    if (origin === "stored") counted.recordedEpisodes++;
    counted.outcomes[episode.outcome]++;
    addCount(counted.stopReasons, episode.stopReason);
    if (episode.ending !== null) addCount(counted.endings, episode.ending);
    if (episode.failure !== null) {
      const name = `${episode.failure.boundary}/${episode.failure.code}`;
      addCount(counted.failures, name);
      if (!Object.hasOwn(counted.firstFailures, name)) setOwn(counted.firstFailures, name, episode.failure.message);
    }
    if (episode.reward !== null) {
      counted.graded++;
      // Samples are checked as well, because a preset with its own loop has samples and no turns.
      if (episode.turns === 0 && episode.samples === 0) counted.gradedWithoutTurn++;
      this.#rewardSum += episode.reward;
      if (Math.abs(episode.reward - 1) <= 1e-6) counted.passed++;
    }
    addAll(counted.droppedTokens, episode.dropped);
  }

  /** Adds the counts of another process. */
  #add({ problems, deviations, agentUsage, userUsage, judgeUsage, ...numbers }: EventCounts): void {
    const counted = this.#counted;
    for (const name of Object.keys(numbers) as (keyof typeof numbers)[]) counted[name] += numbers[name];
    addAll(counted.problems, problems);
    addAll(counted.deviations, deviations);
    this.#agentUsage = addUsage(this.#agentUsage, agentUsage);
    this.#userUsage = addUsage(this.#userUsage, userUsage);
    this.#judgeUsage = addUsage(this.#judgeUsage, judgeUsage);
  }

  /** Sums over the events so far. */
  get eventCounts(): EventCounts {
    const { turns, sampledTokens, recordedTurns, recordedSampledTokens, promptTokens, retries } = this.#counted;
    const { spelledTokens, unlikelyTokens, cutResults, closeFailures, problems, deviations } = this.#counted;
    return {
      turns,
      sampledTokens,
      recordedTurns,
      recordedSampledTokens,
      promptTokens,
      retries,
      spelledTokens,
      unlikelyTokens,
      cutResults,
      closeFailures,
      problems,
      deviations,
      agentUsage: this.#agentUsage,
      userUsage: this.#userUsage,
      judgeUsage: this.#judgeUsage,
    };
  }

  /** Counts a decision. `episodes`: those of the group. */
  decide({ taskId, decision, reason, rewards }: GroupRecord, episodes: readonly EpisodeSummary[]): void {
    const counted = this.#counted;
    counted.groupsFinished++;
    if (decision === "kept") counted.groupsKept++;
    else addCount(counted.groupsDropped, reason ?? "unknown");
    const graded = rewards.filter((reward) => reward !== null);
    if (graded.every((reward) => reward === graded[0])) counted.groupsWithoutSignal++;
    const before = this.#ungraded.get(taskId) ?? (this.#ungraded.has(taskId) ? null : 0);
    // A group that was ended early shows nothing about its task.
    const isCancelled = reason === "surplus" || reason === "stale";
    if (graded.length > 0) this.#ungraded.set(taskId, null);
    else if (before !== null && !isCancelled) this.#ungraded.set(taskId, before + 1);
    for (const { samples, trainedTokens } of episodes) {
      if (decision === "kept") {
        counted.samples += samples;
        counted.trainedTokens += trainedTokens;
      } else if (trainedTokens > 0) addCount(counted.droppedTokens, "filtered", trainedTokens);
    }
  }

  #ungradedTasks(): Counts {
    const found = [...this.#ungraded].flatMap(([task, groups]) => (groups === null ? [] : [[task, groups] as const]));
    return Object.fromEntries(found.toSorted(([, a], [, b]) => b - a).slice(0, mostUngraded));
  }

  totals({ concurrency }: { readonly concurrency: number }): RunTotals {
    const { groups, groupSize, target } = this.#planned;
    const { graded, passed } = this.#counted;
    return {
      ...structuredClone(this.#counted),
      episodesPlanned: groups * groupSize,
      groupsPlanned: groups,
      groupsTarget: target,
      ungradedTasks: this.#ungradedTasks(),
      passRate: graded === 0 ? null : passed / graded,
      meanReward: graded === 0 ? null : this.#rewardSum / graded,
      agentModelCalls: this.#agentUsage.modelCalls,
      agentCost: this.#agentUsage.cost,
      userModelCalls: this.#userUsage.modelCalls,
      userCost: this.#userUsage.cost,
      judgeModelCalls: this.#judgeUsage.modelCalls,
      judgeCost: this.#judgeUsage.cost,
      concurrency,
      elapsedMs: this.#now() - this.#start,
    };
  }
}

function addAll(counts: Record<string, number>, added: Counts): void {
  for (const [name, count] of Object.entries(added)) addCount(counts, name, count);
}

/**
 * Warnings about settings that are allowed but harm learning, one sentence each; empty when there
 * are none. Meant to be shown once per run.
 */
export function rolloutWarnings(
  sampling: Pick<SamplingParams, "temperature" | "topP" | "topK" | "minP">,
  groupSize: number,
): string[] {
  const warnings: string[] = [];
  const { temperature, topP, topK, minP } = sampling;
  if (temperature === 0 && groupSize > 1) {
    warnings.push(
      `Temperature 0 with ${groupSize} samples a task: the episodes of a group will be alike, and a group without ` +
        "differences teaches nothing; use temperature 1, or one sample per task.",
    );
  }
  const cuts = [
    topP < 1 ? `top-p ${topP}` : null,
    topK > 0 ? `top-k ${topK}` : null,
    minP > 0 ? `min-p ${minP}` : null,
  ].filter((cut) => cut !== null);
  if (cuts.length > 0 && temperature !== 0) {
    warnings.push(
      `Truncated sampling (${cuts.join(", ")}): recorded logprobs are those of the whole distribution, not of the one that ` +
        "was sampled from, so importance ratios are wrong; use top-p 1, top-k -1 and min-p 0 for training.",
    );
  }
  return warnings;
}
