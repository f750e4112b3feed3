// A user that says the same lines when it hears the same words takes up a conversation by going through it once more.

import type { SpokenLine, UserLine, UserSimulator } from "../core/index.ts";
import { replayMismatch } from "./replay-mismatch.ts";

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
    `Cannot take up the conversation of the user: line ${index} is ${JSON.stringify(again.text)}, it has said ` +
      `${JSON.stringify(line.text)}; the task, the seed and the user must be those that it began with.`,
  );
}
