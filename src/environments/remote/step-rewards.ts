// The reward of worlds that reward each step: what a call reports, and the grade that follows from it. Not a grader: nothing is
// judged here, the world has done so.

import type { Grade } from "../../core/environment.ts";

/**
 * What the reward of an episode is. "sum": of the rewards of its steps, the undiscounted return. "last": that of the last step that had
 * one, for worlds that repeat a score so far with each step.
 */
export type RewardRule = "sum" | "last";

export const rewardRules: readonly RewardRule[] = ["sum", "last"];

export class StepRewards {
  readonly #rule: RewardRule;
  #sum = 0;
  #last = 0;
  #steps = 0;
  #rewarded = 0;

  constructor(rule: RewardRule) {
    this.#rule = rule;
  }

  /** Counts a step; what its result reports as reward. Under "last" nothing: a score so far is not earned by one step. */
  add(reward: number | null): number | null {
    this.#steps++;
    if (reward === null) return null;
    this.#rewarded++;
    this.#sum += reward;
    this.#last = reward;
    return this.#rule === "sum" ? reward : null;
  }

  /** An episode without any reward has earned nothing: 0, with the metric `rewarded_steps` saying so. */
  grade(): Grade {
    return {
      reward: this.#rule === "sum" ? this.#sum : this.#last,
      metrics: { steps: this.#steps, rewarded_steps: this.#rewarded },
      log: "",
      info: new Map(),
    };
  }
}
