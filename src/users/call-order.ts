// What all user simulators share: the sign that ends a conversation, resuming by saying the same again, and the order of calls
// that every user simulator promises to be called in: `open` once and first, one call at a time,
// nothing after a hang-up or a fault. A call out of order is a mistake of the caller and throws a plain error.

import { type UserLine, type ModelUsage, type SpokenLine, type UserSimulator, AttributedError } from "../core/index.ts";

export const stopMarker = "###STOP###";

/** A line, or a hang-up when the text holds the stop marker. The text stays as it is. */
export function lineFrom(text: string, usage: ModelUsage): UserLine {
  return { type: text.includes(stopMarker) ? "hang-up" : "words", text, usage };
}

export class CallOrder {
  readonly #name: string;
  #state: "new" | "answering" | "open" | "hung up" | "failed";

  /** `state`: "open" for a user that resumes a conversation. */
  constructor(name: string, state: "new" | "open" = "new") {
    this.#name = name;
    this.#state = state;
  }

  /** Runs one call in order. A rejection ends the user: what it remembers may be half written. */
  async run(call: "open" | "reply", answer: () => Promise<UserLine>): Promise<UserLine> {
    const expected = call === "open" ? "new" : "open";
    if (this.#state !== expected) {
      throw new Error(
        `Cannot call ${call}() of user "${this.#name}": its conversation is "${this.#state}", "${expected}" is expected; ` +
          "open() comes once and first, one call at a time, and each episode has a user of its own.",
      );
    }
    this.#state = "answering";
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

/** A fault of the user. `cause` is words, never the error below. */
export function replayMismatch(message: string, cause: string | null = null): AttributedError {
  return new AttributedError({ boundary: "user", code: "replay-mismatch", message, retryable: false, cause });
}

/**
 * `user`, which has not begun, in the middle of a conversation. It is led there at the first call; a line that is not the
 * one it has said fails with code "replay-mismatch".
 */
export function rehearsedUser(user: UserSimulator, spoken: readonly SpokenLine[]): UserSimulator {
  let rehearsal: Promise<void> | null = null;
  const rehearse = async (): Promise<void> => {
    for (const [index, { heard, line }] of spoken.entries()) {
      const again = heard === null ? await user.open() : await user.reply(heard);
      if (!isSameLine(again, line)) throw mismatch(index, again, line);
    }
  };
  return {
    // Whoever has spoken has opened; the user itself says what is wrong with a second opening.
    open: (options) => user.open(options),
    reply: async (words, options) => {
      await (rehearsal ??= rehearse());
      return user.reply(words, options);
    },
  };
}

function isSameLine(left: UserLine, right: UserLine): boolean {
  return left.type === right.type && left.text === right.text;
}

function mismatch(index: number, again: UserLine, line: UserLine): Error {
  return replayMismatch(
    `Cannot resume the conversation of the user: line ${index} is ${JSON.stringify(again.text)}, it has said ` +
      `${JSON.stringify(line.text)}; the task, the seed and the user must be those that it began with.`,
  );
}
