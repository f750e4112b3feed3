// Ends a run that replaces its dropped groups, once every episode fails before its first turn: an
// environment or a user that cannot be opened would be tried again without end. Failures of the
// engine do not count, because servers come back: the engines' circuit breakers wait for them.

import { AttributedError, type EpisodeSummary } from "../core/index.ts";

/**
 * Number of consecutive failures that ends the run: this many, or four times the episodes in flight
 * if that is more.
 */
const leastEndured = 100;

/** `task`: completes "Cannot ...". */
export class FailedOpenings {
  readonly #task: string;
  #inARow = 0;

  constructor(task: string) {
    this.#task = task;
  }

  /**
   * Counts an episode that has ended. `inFlight`: the limit of episodes in flight. Throws an
   * `AttributedError` with the last failure once too many in a row have failed.
   */
  see({ outcome, turns, failure }: EpisodeSummary, inFlight: number): void {
    // An aborted episode says nothing about the openings.
    if (outcome === "aborted") return;
    if (outcome !== "failed" || turns > 0 || failure === null || failure.boundary === "engine") {
      this.#inARow = 0;
      return;
    }
    this.#inARow++;
    if (this.#inARow < Math.max(leastEndured, Number.isFinite(inFlight) ? 4 * inFlight : 0)) return;
    const { boundary, code, message } = failure;
    throw new AttributedError({
      ...failure,
      message:
        `Cannot ${this.#task}: ${this.#inARow} episodes in a row failed before their first turn, the last one with ` +
        `${boundary}/${code}: ${message} Correct what they fail at, and start again.`,
      retryable: false,
    });
  }
}
