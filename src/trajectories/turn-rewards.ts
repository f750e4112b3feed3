// Rewards of turns: the turns that can have one, the values that a grade may give them, and their
// places in the tokens of a sample. Not credit assignment, which is in `learner/`.
//
// One list per episode, aligned with `trajectory.turns`. A discarded turn (an attempt that the
// engine aborted, an answer that never reached its program) is in no sample and has no reward:
// `null`. The entries sum to the reward of the episode.

import type { Episode, EpisodeEvent, Grade, Lineage, Sample, Trajectory, Turn } from "../core/index.ts";
import { branchesOf } from "./recorder.ts";

/** One entry per turn; `null` if its reward is not known. */
export type TurnRewards = readonly (number | null)[];

/**
 * Indexes of turns from which nothing followed: the engine aborted them, their program never read
 * them, or their episode began again.
 */
export function discardedTurns({ trajectory, events }: Pick<Episode, "trajectory" | "events">): ReadonlySet<number> {
  const discarded = new Set(
    events.flatMap((event) => (event.type === "undelivered" || event.type === "restart" ? event.turns : [])),
  );
  for (const { index, finish } of trajectory.turns) if (finish.reason === "abort") discarded.add(index);
  return discarded;
}

/** Indexes of turns that earn no share of the reward, because they are outside the main lineage. */
export function uncreditedTurns({ events }: Pick<Episode, "events">): ReadonlySet<number> {
  const found = events.find((event) => event.type === "lineages");
  return new Set(found?.credit === "main" ? othersIn(found.lineages) : []);
}

function othersIn(lineages: readonly Lineage[]): readonly number[] {
  return lineages.flatMap(({ kind, turns }) => (kind === "main" ? [] : turns));
}

/** Relative difference that counts as rounding error. */
const tolerance = 1e-6;

/** True if the entries add up to the reward, within rounding error. */
export function addsUp(rewards: TurnRewards, reward: number): boolean {
  const size = rewards.reduce<number>((sum, one) => sum + Math.abs(one ?? 0), Math.abs(reward));
  return Math.abs(totalOf(rewards) - reward) <= tolerance * size;
}

/**
 * Aligns given rewards with the turns. `given` has one entry per turn that counts, as programs and
 * environments count turns, or one per recorded turn. `counts`: one per recorded turn; false if it
 * was discarded. Throws a `TypeError` that describes the error.
 */
export function alignTurnRewards(given: TurnRewards, reward: number, counts: readonly boolean[]): TurnRewards {
  const turns = counts.filter(Boolean).length;
  if (given.length !== turns && given.length !== counts.length) {
    const discarded = counts.length === turns ? "" : ` (${counts.length - turns} more were discarded)`;
    throw new TypeError(
      `turnRewards has ${given.length} entries, the trajectory has ${turns} turns${discarded}: pass one for each turn, null where it is unknown, or omit turnRewards.`,
    );
  }
  let next = 0;
  const aligned = given.length === counts.length ? given : counts.map((does) => (does ? given[next++]! : null));
  const stray = aligned.findIndex((one, turn) => one !== null && counts[turn] === false);
  if (stray !== -1) {
    throw new TypeError(`turnRewards[${stray}] is ${aligned[stray]}, and turn ${stray} was discarded: expected null.`);
  }
  if (!addsUp(aligned, reward)) {
    throw new TypeError(
      `turnRewards add up to ${totalOf(aligned)}, the reward is ${reward}: what the turns earned must be what the episode earned.`,
    );
  }
  return aligned;
}

/**
 * Completes known rewards: entries of turns that do not count are removed, and the rest of the
 * reward, beyond the sum of the others, goes to the last turn that counts. `null` if no turn
 * counts, or no reward is known.
 */
export function completeTurnRewards(
  known: TurnRewards,
  reward: number,
  counts: readonly boolean[],
): TurnRewards | null {
  const last = counts.lastIndexOf(true);
  if (last === -1 || known.every((one) => one === null)) return null;
  const rewards = counts.map((does, turn) => (does ? (known[turn] ?? null) : null));
  if (addsUp(rewards, reward)) return rewards;
  const rest = reward - totalOf(rewards.with(last, null));
  return rewards.with(last, rest);
}

/**
 * The grade of an episode, with its turn rewards aligned with the record. Throws a `TypeError` if
 * they cannot be aligned.
 */
export function gradeTurns(grade: Grade, { trajectory, events }: Pick<Episode, "trajectory" | "events">): Grade {
  const { turns, steps } = stepRewards(events);
  const discarded = discardedTurns({ trajectory, events });
  // An agent behind an API has replies instead of turns.
  const counts =
    trajectory.turns.length > 0
      ? trajectory.turns.map(({ index }) => !discarded.has(index))
      : Array.from({ length: turns }, () => true);
  const given = grade.turnRewards ?? null;
  const turnRewards =
    given === null ? completeTurnRewards(steps, grade.reward, counts) : alignTurnRewards(given, grade.reward, counts);
  return turnRewards === null ? grade : { ...grade, turnRewards };
}

/** Sums the step rewards of each turn. A tool result belongs to the turn before it. */
function stepRewards(events: readonly EpisodeEvent[]): { readonly turns: number; readonly steps: TurnRewards } {
  const steps: (number | null)[] = [];
  let turns = 0;
  for (const event of events) {
    if (event.type === "turn") turns = event.turn.index + 1;
    else if (event.type === "agent-reply") turns++;
    else if (event.type === "tool-result") {
      const reward = event.result.reward ?? null;
      while (steps.length < turns) steps.push(null);
      if (reward !== null && turns > 0) steps[turns - 1] = (steps[turns - 1] ?? 0) + reward;
    }
  }
  return { turns, steps };
}

/** Place of an action in the tokens of a sample. */
export type TurnSpan = {
  /** Index in `trajectory.turns`. */
  readonly turn: number;
  /** `[start, end)` in `tokens`. */
  readonly start: number;
  readonly end: number;
  /** False if another branch trains it, or none does. */
  readonly isTrained: boolean;
  /**
   * Reward of the turn; `null` if it is not known. Over all samples, the trained spans hold each
   * reward once.
   */
  readonly reward: number | null;
};

/**
 * The actions on the branch of a sample, in order. `rewards` are those of the grade; empty if the
 * episode has no turn rewards.
 */
export function turnSpans(
  sample: Pick<Sample, "branch" | "lossMask">,
  trajectory: Trajectory,
  rewards: TurnRewards = [],
): readonly TurnSpan[] {
  const path: readonly Turn[] = branchesOf(trajectory)[sample.branch] ?? [];
  let end = 0;
  return path.map(({ index, observationTokens, sampledTokens }) => {
    const start = end + observationTokens.length;
    end = start + sampledTokens.length;
    // One branch trains a turn; a constraint may keep some of its tokens out of the loss.
    return {
      turn: index,
      start,
      end,
      isTrained: sample.lossMask.subarray(start, end).includes(1),
      reward: rewards[index] ?? null,
    };
  });
}

function totalOf(rewards: TurnRewards): number {
  return rewards.reduce<number>((sum, one) => sum + (one ?? 0), 0);
}
