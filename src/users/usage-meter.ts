// Sums what a line of a simulated user cost: every model call counts, those of failed attempts and checks too.

import { freeUsage, type UserUsage } from "../core/index.ts";

/** One unknown price makes the sum unknown. */
export function addUsage(left: UserUsage, right: UserUsage): UserUsage {
  return {
    modelCalls: left.modelCalls + right.modelCalls,
    inputTokens: left.inputTokens + right.inputTokens,
    outputTokens: left.outputTokens + right.outputTokens,
    cost: left.cost === null || right.cost === null ? null : left.cost + right.cost,
  };
}

export class UsageMeter {
  #total: UserUsage = freeUsage;

  readonly add = (usage: UserUsage): void => {
    this.#total = addUsage(this.#total, usage);
  };

  total(): UserUsage {
    return this.#total;
  }
}
