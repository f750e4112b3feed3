// Credit: the rewards that are attributed to a token of the policy. "outcome": those of its
// episode. "turn": those of its episode from its turn on, for grades that state the reward of each
// turn. Not a loss; tokens are not read here.
//
// A turn's return is compared with the mean return at that turn over ALL episodes of the group; an
// episode that has stopped has earned nothing since, and counts as 0. Means over only the episodes
// that are still running are biased if the policy decides when to stop (verl issue 7244): rewards
// centred by them sum to nothing on the way, as if continuing were worth minus the mean of what it
// earns. docs/learning.md has the numbers.

import type { Episode } from "../core/index.ts";
import { discardedTurns } from "../trajectories/index.ts";

/**
 * The rewards that are credited to a token: those of its whole episode, or those from the token's
 * turn on.
 */
export const creditChoices = ["outcome", "turn"] as const;
export type Credit = (typeof creditChoices)[number];

/** The reward of each turn of one episode that counts, in order. */
export type EarnedTurns = {
  /** Index in `trajectory.turns`; aligned with `rewards`. */
  readonly turns: readonly number[];
  readonly rewards: readonly number[];
};

/**
 * Rewards of each turn. If the grade states none, the last turn earned the reward of the episode. A
 * turn without a known reward earned nothing. Throws a plain error if the entries are not aligned
 * with the turns.
 */
export function earnedTurns(episode: Pick<Episode, "id" | "reward" | "grade" | "trajectory" | "events">): EarnedTurns {
  const discarded = discardedTurns(episode);
  const { turns: all } = episode.trajectory;
  const turns = all.map(({ index }) => index).filter((index) => !discarded.has(index));
  const given = episode.grade?.turnRewards ?? null;
  if (given !== null && given.length !== all.length) {
    throw new Error(
      `Cannot credit the turns of episode "${episode.id}": its grade has ${given.length} rewards of turns, the trajectory ${all.length} turns.`,
    );
  }
  const rewards = turns.map((turn, at) =>
    given === null ? (at === turns.length - 1 ? (episode.reward ?? 0) : 0) : (given[turn] ?? 0),
  );
  return { turns, rewards };
}

/**
 * Sum of the rewards of each turn and the turns after it; each turn between multiplies a later
 * reward by `discount`.
 */
export function returnsToGo(rewards: readonly number[], discount: number): number[] {
  const returns = [...rewards];
  for (let at = returns.length - 2; at >= 0; at--) returns[at]! += discount * returns[at + 1]!;
  return returns;
}

/** Prevents huge advantages in a group whose returns hardly differ. */
const epsilon = 1e-4;

/**
 * One list for each episode, aligned with its turns. `normalize` divides by the root of the mean
 * square of all of them: one scale for the whole group, so that turns keep their proportions. If
 * all returns are equal, every advantage is 0.
 */
export function turnAdvantages(
  episodes: readonly (readonly number[])[],
  options: { readonly discount: number; readonly normalize: boolean },
): readonly (readonly number[])[] {
  const returns = episodes.map((rewards) => returnsToGo(rewards, options.discount));
  const longest = Math.max(0, ...returns.map((list) => list.length));
  const means = Array.from({ length: longest }, (_, at) => {
    const here = returns.map((list) => list[at] ?? 0);
    // Sums are rounded, so the mean of equal numbers is returned directly.
    if (here.every((one) => one === here[0])) return here[0]!;
    return here.reduce((sum, one) => sum + one, 0) / here.length;
  });
  const centred = returns.map((list) => list.map((one, at) => one - means[at]!));
  if (!options.normalize) return centred;
  const all = centred.flat();
  const size = Math.sqrt(all.reduce((sum, one) => sum + one * one, 0) / all.length);
  if (!(size > 0)) return centred;
  return centred.map((list) => list.map((one) => one / (size + epsilon)));
}
