// The parts of an answer as they become known, for however many clients read it: a client that lost its connection and asks
// again reads from the first part.

import type { AnswerDelta } from "./request.ts";

export class Deltas {
  readonly list: AnswerDelta[] = [];
  /** The whole answer was written to a client, its end included. */
  isTold = false;
  #isDone = false;
  #waiting = new Set<() => void>();

  /** Nothing more comes. */
  get isDone(): boolean {
    return this.#isDone;
  }

  push(delta: AnswerDelta): void {
    this.list.push(delta);
    this.#wake();
  }

  end(): void {
    this.#isDone = true;
    this.#wake();
  }

  /** Resolves when there is more, or all; "nothing" after `withinMs`. */
  async next(withinMs: number): Promise<"more" | "nothing"> {
    if (this.#isDone) return "more";
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve("more");
      };
      const timer = setTimeout(() => {
        this.#waiting.delete(wake);
        resolve("nothing");
      }, withinMs);
      this.#waiting.add(wake);
    });
  }

  #wake(): void {
    for (const wake of [...this.#waiting]) wake();
  }
}
