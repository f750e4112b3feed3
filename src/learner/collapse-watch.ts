// Detects that learning has collapsed: a policy that does the same in every task, has no choice
// left to learn from, or gets worse evaluation by evaluation. Small models do this readily (one
// action that always pays a little is found sooner than the right one), and every further step
// makes it worse.

export type CollapseLimits = {
  /** Share of episodes with the same calls in the same order. */
  readonly commonestBehaviour: number;
  /** Number of consecutive steps in which it must be exceeded. */
  readonly behaviourSteps: number;
  /** Share of the first steps' entropy. */
  readonly entropy: number;
  /** Number of consecutive evaluations that are each worse than the one before. */
  readonly fallingEvaluations: number;
  /** The minimum distance of the last of them below the best evaluation. */
  readonly fall: number;
};

/**
 * A policy that solves its tasks may be certain and predictable, so these limits also consider the
 * pass rate.
 */
export const defaultCollapseLimits: CollapseLimits = Object.freeze({
  commonestBehaviour: 0.8,
  behaviourSteps: 3,
  entropy: 0.05,
  fallingEvaluations: 3,
  fall: 0.1,
});

export type WatchedStep = {
  readonly passRate: number | null;
  readonly entropy: number | null;
  readonly commonestBehaviour: number | null;
};

/** Above this pass rate neither predictable behaviour nor low entropy is a fault. */
const goodPassRate = 0.8;

export class CollapseWatch {
  readonly #limits: CollapseLimits;
  readonly #evaluations: number[] = [];
  #firstEntropy: number | null = null;
  #samePolicy = 0;

  constructor(limits: CollapseLimits = defaultCollapseLimits) {
    this.#limits = limits;
  }

  /** Reason to stop after this step; `null` to continue. */
  step({ passRate, entropy, commonestBehaviour }: WatchedStep): string | null {
    const { limits, isGood } = { limits: this.#limits, isGood: (passRate ?? 0) >= goodPassRate };
    this.#firstEntropy ??= entropy;
    const isSame = commonestBehaviour !== null && commonestBehaviour > limits.commonestBehaviour && !isGood;
    this.#samePolicy = isSame ? this.#samePolicy + 1 : 0;
    if (this.#samePolicy >= limits.behaviourSteps) {
      return (
        `for ${this.#samePolicy} steps more than ${percent(limits.commonestBehaviour)} of the episodes called the same tools in ` +
        `the same order, and ${percent(passRate ?? 0)} passed: the policy has settled on a single behaviour`
      );
    }
    const first = this.#firstEntropy;
    if (entropy !== null && first !== null && entropy < first * limits.entropy && !isGood) {
      return (
        `the entropy of the policy is ${entropy.toExponential(1)}, ${percent(entropy / first)} of what it was at first, and ` +
        `${percent(passRate ?? 0)} of the episodes passed: there is no choice left to learn from`
      );
    }
    return null;
  }

  /** Reason to stop after this evaluation; `null` to continue. */
  evaluation(passRate: number): string | null {
    const { fallingEvaluations, fall } = this.#limits;
    this.#evaluations.push(passRate);
    const last = this.#evaluations.slice(-fallingEvaluations - 1);
    const isFalling =
      last.length > fallingEvaluations && last.every((rate, index) => index === 0 || rate < last[index - 1]!);
    const best = Math.max(...this.#evaluations);
    if (!isFalling || best - passRate < fall) return null;
    return `the pass rate on held-out tasks fell ${fallingEvaluations} times in a row, from ${percent(best)} to ${percent(passRate)}`;
  }
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
