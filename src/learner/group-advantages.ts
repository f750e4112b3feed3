// Rewards to advantages: how much better an episode was than the episodes it is compared with. No
// tokens here.

import type { Sample } from "../core/index.ts";
import { alignmentViolations, turnSpans } from "../trajectories/index.ts";
import type { FinishedEpisode } from "../rollout/index.ts";
import type { LossSequence } from "./loss.ts";
import { type Credit, earnedTurns, turnAdvantages } from "./turn-credit.ts";

/**
 * The episodes among which rewards are compared. "group": those of one task (GRPO). "batch": all
 * episodes of a step (REINFORCE with a baseline).
 */
export type Baseline = "group" | "batch";

export type AdvantageOptions = {
  readonly baseline: Baseline;
  /**
   * Divides advantages by the standard deviation of the compared rewards. Rare successes then count
   * more than frequent ones.
   */
  readonly normalize: boolean;
};

/** Prevents huge advantages in a group whose rewards hardly differ. */
const epsilon = 1e-4;

/**
 * One list for each group, aligned with its rewards. If all compared rewards are equal, every
 * advantage is 0.
 */
export function groupAdvantages(
  groups: readonly (readonly number[])[],
  options: AdvantageOptions,
): readonly (readonly number[])[] {
  if (options.baseline === "group") return groups.map((rewards) => centred(rewards, rewards, options.normalize));
  const all = groups.flat();
  return groups.map((rewards) => centred(rewards, all, options.normalize));
}

/** True if a group teaches nothing: fewer than two rewards, or all of them equal. */
export function hasZeroVariance(rewards: readonly number[]): boolean {
  return rewards.every((reward) => reward === rewards[0]);
}

function centred(rewards: readonly number[], among: readonly number[], normalize: boolean): number[] {
  if (hasZeroVariance(among)) return rewards.map(() => 0);
  const mean = among.reduce((sum, reward) => sum + reward, 0) / among.length;
  const variance = among.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / among.length;
  const scale = normalize ? 1 / (Math.sqrt(variance) + epsilon) : 1;
  return rewards.map((reward) => (reward - mean) * scale);
}

export type WeighOptions = AdvantageOptions & {
  /**
   * Subtracted from the advantage of an episode for each rule that it broke (the grade's metric
   * `ruleViolations`, if there is one).
   */
  readonly penalty: number;
  /** The rewards that are credited to a token; see `turn-credit.ts`. @default "outcome" */
  readonly credit?: Credit;
  /**
   * Discount per turn with credit "turn": the factor that a reward is worth one turn earlier, above
   * 0 and at most 1. @default 1
   */
  readonly discount?: number;
  /** Keeps samples whose advantage is 0, for a teacher that values their tokens. @default false */
  readonly keepsAll?: boolean;
};

/**
 * The samples of all graded episodes that are better or worse than those they are compared with, or
 * broke a rule.
 */
export function weighSamples(
  groups: readonly { readonly episodes: readonly FinishedEpisode[] }[],
  options: WeighOptions,
): WeightedSample[] {
  if (options.credit === "turn") return weighTurns(groups, options);
  const graded = groups.map(({ episodes }) =>
    episodes.flatMap(({ episode: { reward, grade }, result }) => {
      const price = options.penalty * (grade?.metrics["ruleViolations"] ?? 0);
      return reward === null ? [] : [{ samples: result.samples, reward, price }];
    }),
  );
  const rewards = graded.map((episodes) => episodes.map(({ reward }) => reward));
  const advantages = groupAdvantages(rewards, options);
  return graded.flatMap((episodes, group) =>
    episodes.flatMap(({ samples, price }, index) => {
      const advantage = advantages[group]![index]! - price;
      return advantage === 0 && options.keepsAll !== true ? [] : samples.map((sample) => ({ sample, advantage }));
    }),
  );
}

function weighTurns(
  groups: readonly { readonly episodes: readonly FinishedEpisode[] }[],
  { baseline, normalize, penalty, discount = 1, keepsAll = false }: WeighOptions,
): WeightedSample[] {
  const graded = groups.map(({ episodes }) => episodes.filter(({ episode }) => episode.reward !== null));
  const pools = baseline === "group" ? graded : [graded.flat()];
  return pools.flatMap((episodes) => {
    const earned = episodes.map(({ episode }) => earnedTurns(episode));
    const advantages = turnAdvantages(
      earned.map(({ rewards }) => rewards),
      { discount, normalize },
    );
    return episodes.flatMap(({ episode, result }, index) => {
      const price = penalty * (episode.grade?.metrics["ruleViolations"] ?? 0);
      const byTurn = new Map(earned[index]!.turns.map((turn, at) => [turn, advantages[index]![at]! - price]));
      return result.samples.flatMap((sample): WeightedSample[] => {
        const advantage = new Float32Array(sample.tokens.length);
        for (const { turn, start, end, isTrained } of turnSpans(sample, episode.trajectory))
          if (isTrained) advantage.fill(byTurn.get(turn) ?? 0, start, end);
        return !keepsAll && advantage.every((one) => one === 0) ? [] : [{ sample, advantage }];
      });
    });
  });
}

/** A training row with its advantage: one number, or one for each of its tokens. */
export type WeightedSample = { readonly sample: Sample; readonly advantage: number | Float32Array };

/**
 * Deliberate mistakes of experiments and of the controls beside them. "shifted-mask": the loss mask
 * is moved by one token, "far-shifted-mask" by 20, without the places where that is an action again. "observations-too":
 * observations are trained as well. "reversed-rewards": the better an episode is, the less likely
 * it becomes. All of them switch the checks off.
 */
export type Sabotage = "none" | "shifted-mask" | "far-shifted-mask" | "observations-too" | "reversed-rewards";

const farShift = 20;

/**
 * One sequence for each sample; every token in the loss has the same weight, regardless of the
 * length of its episode. Throws an `Error` for a sample that is not aligned, was not recorded token
 * by token, or has no logprobs.
 */
export function policySequences(rows: readonly WeightedSample[], sabotage: Sabotage = "none"): LossSequence[] {
  const places = rows.map(({ sample }) => {
    if (sabotage === "none") checkSample(sample);
    return placesOf(sample, sabotage);
  });
  const total = places.reduce((sum, targets) => sum + targets.length, 0);
  const hasWrongMask = sabotage !== "none" && sabotage !== "reversed-rewards";
  const sign = sabotage === "reversed-rewards" ? -1 : 1;
  return rows.map(({ sample, advantage }, index) => {
    const targets = places[index]!;
    const { tokens, logprobs } = sample;
    return {
      tokens,
      targets,
      weights: new Float32Array(targets.length).fill(1 / total),
      advantages:
        typeof advantage === "number"
          ? new Float32Array(targets.length).fill(sign * advantage)
          : Float32Array.from(targets, (place) => sign * advantage[place]!),
      // A wrong mask trains tokens that were not sampled, so no logprobs can be compared.
      sampledLogprobs:
        logprobs === null || hasWrongMask ? null : Float32Array.from(targets, (place) => logprobs[place]!),
      referenceLogprobs: null,
    };
  });
}

function checkSample(sample: Sample): void {
  const problem =
    alignmentViolations(sample)[0] ??
    (sample.tokenAccounting === "text-delta" ? `Sample "${sample.id}": its tokens are re-encoded text.` : null) ??
    (sample.logprobs === null ? `Sample "${sample.id}": it has no logprobs.` : null);
  if (problem !== null) {
    throw new Error(`Cannot train: ${problem} Tokens that are trained must be the tokens that were sampled.`);
  }
}

function placesOf({ tokens, lossMask, sampledMask }: Sample, sabotage: Sabotage): Uint32Array {
  const places = [...tokens.keys()];
  switch (sabotage) {
    case "none":
    case "reversed-rewards":
      return Uint32Array.from(places.filter((place) => lossMask[place] === 1));
    case "shifted-mask":
      return Uint32Array.from(places.filter((place) => lossMask[place - 1] === 1));
    case "far-shifted-mask":
      return Uint32Array.from(places.filter((place) => lossMask[place - farShift] === 1 && sampledMask[place] === 0));
    case "observations-too": {
      // Starts at the first action: the guidelines before it are the same in every episode.
      const first = sampledMask.indexOf(1);
      return Uint32Array.from(places.filter((place) => place >= first && first >= 1));
    }
    default:
      return sabotage satisfies never;
  }
}
