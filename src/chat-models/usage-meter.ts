// Sums what an answer of a model cost: every call counts, those of failed attempts and checks too.

import { addUsage, freeUsage, type ModelUsage } from "../core/index.ts";

export class UsageMeter {
  #total: ModelUsage = freeUsage;

  readonly add = (usage: ModelUsage): void => {
    this.#total = addUsage(this.#total, usage);
  };

  total(): ModelUsage {
    return this.#total;
  }
}
