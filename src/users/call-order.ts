// The order of calls that every user simulator promises to be asked in: `open` once and first, one call at a time,
// nothing after a hang-up or a fault. A call out of order is a mistake of the caller and throws a plain error.

import type { UserLine } from "../core/index.ts";

export class CallOrder {
  readonly #name: string;
  #state: "new" | "asked" | "open" | "hung up" | "failed";

  /** `state`: "open" for a user that takes up a conversation. */
  constructor(name: string, state: "new" | "open" = "new") {
    this.#name = name;
    this.#state = state;
  }

  /** Runs one call in order. A rejection ends the user: what it remembers may be half written. */
  async run(call: "open" | "reply", answer: () => Promise<UserLine>): Promise<UserLine> {
    const wanted = call === "open" ? "new" : "open";
    if (this.#state !== wanted) {
      throw new Error(
        `Cannot call ${call}() of user "${this.#name}": its conversation is "${this.#state}", "${wanted}" is wanted; ` +
          "open() comes once and first, one call at a time, and each episode has a user of its own.",
      );
    }
    this.#state = "asked";
    try {
      const line = await answer();
      this.#state = line.type === "hang-up" ? "hung up" : "open";
      return line;
    } catch (error) {
      this.#state = "failed";
      throw error;
    }
  }
}
