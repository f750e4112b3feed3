// A step as numbers to plot and compare: one row of metrics.csv. Absent is `null`, never zero.

import type { Episode } from "../core/index.ts";
import type { PolicyStep } from "./policy-learner.ts";

/** Numbers by name, in the order of columns. */
export type StepMetrics = Readonly<Record<string, number | null>>;

export function stepMetrics(step: PolicyStep): StepMetrics {
  const { groups, update } = step;
  const agreement = update === null || update.agreement.tokens === 0 ? null : update.agreement;
  const episodes = groups.flatMap((group) => group.episodes.map(({ episode }) => episode));
  const rewards = episodes.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  const sampled = episodes.map(({ trajectory }) =>
    trajectory.turns.reduce((sum, turn) => sum + turn.sampledTokens.length, 0),
  );
  return {
    step: step.step,
    pass_rate: mean(rewards.map((reward) => (reward === 1 ? 1 : 0))),
    mean_reward: mean(rewards),
    groups: groups.length,
    live_groups: groups.filter((group) => !group.isDead).length,
    episodes: episodes.length,
    failed_episodes: episodes.filter(({ outcome }) => outcome === "failed").length,
    truncated_episodes: episodes.filter(({ outcome }) => outcome === "truncated").length,
    turns_per_episode: mean(episodes.map(({ trajectory }) => trajectory.turns.length)),
    sampled_tokens: sampled.reduce((sum, count) => sum + count, 0),
    problems_per_episode: mean(episodes.map(({ problems }) => problems.length)),
    rule_violations_per_episode: mean(episodes.flatMap(({ grade }) => grade?.metrics["ruleViolations"] ?? [])),
    commonest_behaviour: commonestBehaviour(episodes),
    trained_samples: update?.samples ?? 0,
    trained_tokens: update?.tokens ?? 0,
    loss: update?.loss ?? null,
    entropy: update?.entropy ?? null,
    kl: update?.kl ?? null,
    clipped: update?.clipped ?? null,
    gradient_norm: update?.gradientNorm ?? null,
    learning_rate: update?.learningRate ?? null,
    logprob_difference_mean: agreement?.mean ?? null,
    logprob_difference_largest: agreement?.largest ?? null,
    rollout_seconds: step.rolloutMs / 1000,
    train_seconds: step.trainMs / 1000,
  };
}

/** The share of episodes that called the same tools in the same order as the most others did. */
export function commonestBehaviour(episodes: readonly Episode[]): number | null {
  if (episodes.length === 0) return null;
  const counts = new Map<string, number>();
  for (const { events } of episodes) {
    const calls = events.flatMap((event) =>
      event.type === "decision" && event.decision.type === "call" ? [event.decision.call.name] : [],
    );
    const signature = calls.join(" ");
    counts.set(signature, (counts.get(signature) ?? 0) + 1);
  }
  return Math.max(...counts.values()) / episodes.length;
}

function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}
