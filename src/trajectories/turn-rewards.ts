// Rewards of turns: which turns can have one, what a grade may say about them, and where in the tokens of a sample they stand.
// Not credit: what a trainer makes of them is in `learner/`.
//
// One list for an episode, aligned with `trajectory.turns`. A discarded turn (an attempt that the engine aborted, an answer that
// never reached its program) is in no sample and has none: `null`. The entries add up to the reward of the episode.

import type { Episode, EpisodeEvent, Grade, Sample, Trajectory, Turn } from "../core/index.ts";
import { branchesOf } from "./branches.ts";

/** One for each turn; `null`: nothing is known of it. */
export type TurnRewards = readonly (number | null)[];

/**
 * The indexes of turns that nothing followed from: the engine aborted them, their program never read them, or their episode began
 * again.
 */
export function discardedTurns({ trajectory, events }: Pick<Episode, "trajectory" | "events">): ReadonlySet<number> {
  const discarded = new Set(
    events.flatMap((event) => (event.type === "undelivered" || event.type === "restart" ? event.turns : [])),
  );
  for (const { index, finish } of trajectory.turns) if (finish.reason === "abort") discarded.add(index);
  return discarded;
}

/** Share of the largest number that rounding explains. */
const tolerance = 1e-6;

/** True if the entries add up to the reward, within rounding error. */
export function addsUp(rewards: TurnRewards, reward: number): boolean {
  const size = rewards.reduce<number>((sum, one) => sum + Math.abs(one ?? 0), Math.abs(reward));
  return Math.abs(totalOf(rewards) - reward) <= tolerance * size;
}

/**
 * Given rewards aligned with the turns: one for each turn that counts, as a program or an environment counts its turns, or one for
 * each turn of the record. `counts`: one for each turn of the record; false: it was discarded. Throws a `TypeError` that says what
 * is wrong with them.
 */
export function alignTurnRewards(given: TurnRewards, reward: number, counts: readonly boolean[]): TurnRewards {
  const turns = counts.filter(Boolean).length;
  if (given.length !== turns && given.length !== counts.length) {
    const discarded = counts.length === turns ? "" : ` (${counts.length - turns} more were discarded)`;
    throw new TypeError(
      `turnRewards has ${given.length} entries, the trajectory has ${turns} turns${discarded}: give one for each, null where nothing is known, or leave turnRewards out.`,
    );
  }
  let next = 0;
  const aligned = given.length === counts.length ? given : counts.map((does) => (does ? given[next++]! : null));
  const stray = aligned.findIndex((one, turn) => one !== null && counts[turn] === false);
  if (stray !== -1) {
    throw new TypeError(`turnRewards[${stray}] is ${aligned[stray]}, and turn ${stray} was discarded: null is needed.`);
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

/** The grade of an episode, its turn rewards aligned with the record. Throws a `TypeError` for those that cannot be. */
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

/** Step rewards of each turn, added up. A tool result belongs to the turn before it. */
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

/** Where an action stands in the tokens of a sample. */
export type TurnSpan = {
  /** Index in `trajectory.turns`. */
  readonly turn: number;
  /** `[start, end)` in `tokens`. */
  readonly start: number;
  readonly end: number;
  /** False: another branch trains it, or nothing does. */
  readonly isTrained: boolean;
  /**
   * Reward of the turn; `null` if it is not known. Over all samples, the trained spans hold each
   * reward once.
   */
  readonly reward: number | null;
};

/** The actions on the branch of a sample, in order. `rewards` as in the grade; none where the episode has no rewards of turns. */
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
    // All of a turn is trained, or none.
    return {
      turn: index,
      start,
      end,
      isTrained: sample.lossMask[start] === 1 && end > start,
      reward: rewards[index] ?? null,
    };
  });
}

function totalOf(rewards: TurnRewards): number {
  return rewards.reduce<number>((sum, one) => sum + (one ?? 0), 0);
}
