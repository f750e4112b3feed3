// Rewards to advantages: how much better an episode was than what it is compared with. No tokens here.

/** Among what rewards are compared. "group": episodes of one task (GRPO). "batch": all episodes of a step (REINFORCE with a baseline). */
export type Baseline = "group" | "batch";

export type AdvantageOptions = {
  readonly baseline: Baseline;
  /** Divides by the standard deviation of what is compared. Rare successes then count more than usual ones. */
  readonly normalize: boolean;
};

/** Keeps a group whose rewards hardly differ from being blown up. */
const epsilon = 1e-4;

/** One list for each group, aligned with its rewards. Where nothing differs, every advantage is 0. */
export function groupAdvantages(
  groups: readonly (readonly number[])[],
  options: AdvantageOptions,
): readonly (readonly number[])[] {
  if (options.baseline === "group") return groups.map((rewards) => centred(rewards, rewards, options.normalize));
  const all = groups.flat();
  return groups.map((rewards) => centred(rewards, all, options.normalize));
}

/** True when a group teaches nothing: fewer than two rewards, or all of them equal. */
export function isDead(rewards: readonly number[]): boolean {
  return rewards.every((reward) => reward === rewards[0]);
}

function centred(rewards: readonly number[], among: readonly number[], normalize: boolean): number[] {
  if (isDead(among)) return rewards.map(() => 0);
  const mean = among.reduce((sum, reward) => sum + reward, 0) / among.length;
  const variance = among.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / among.length;
  const scale = normalize ? 1 / (Math.sqrt(variance) + epsilon) : 1;
  return rewards.map((reward) => (reward - mean) * scale);
}
