// A user for worlds without one: it states the task once, and hangs up when the policy talks
// instead of acting. The usual counterpart in environments behind a protocol, where a message
// without a tool call ends the episode.

import {
  ConfigurationError,
  freeUsage,
  type PastLine,
  type Task,
  type UserSimulator,
  type UserSource,
} from "../core/index.ts";
import { orderedUser } from "./conversation.ts";

export type TaskUserOptions = {
  /**
   * Number of times that the user reminds a policy that talks instead of acting; after that, the
   * user hangs up.
   * @default 0
   */
  readonly reminders?: number;
  /** Text of a reminder. @default "Please continue with the tools; the task is not finished." */
  readonly reminder?: string;
};

/**
 * Opens with the environment's own opening, or else with the task's instruction. A task without
 * either fails its episode at boundary "user". Throws a `RangeError` for an invalid number of
 * reminders.
 */
export function taskUser(options: TaskUserOptions = {}): UserSource {
  const { reminders = 0, reminder = "Please continue with the tools; the task is not finished." } = options;
  if (!Number.isSafeInteger(reminders) || reminders < 0) {
    throw new RangeError(`Cannot create user "task": reminders is ${reminders}, expected a whole number from 0.`);
  }
  const speak = (task: Task, spoken: readonly PastLine[]): UserSimulator => {
    let reminded = Math.max(0, spoken.length - 1);
    return orderedUser(
      "task",
      async (heard, _signal, { opening }) => {
        if (heard === null) return { type: "utterance", text: opening ?? firstLine(task), usage: freeUsage };
        if (reminded++ < reminders) return { type: "utterance", text: reminder, usage: freeUsage };
        return { type: "hang-up", text: "", usage: freeUsage };
      },
      spoken.length === 0 ? "new" : "open",
    );
  };
  return {
    name: "task",
    create: (task) => speak(task, []),
    resume: (task, { lines: spoken }) => speak(task, spoken),
  };
}

function firstLine({ id, instruction, environment }: Task): string {
  if (instruction !== null) return instruction;
  throw new ConfigurationError(
    `Cannot open task "${id}" with user "task": it has no instruction, and environment "${environment}" begins with no text of its own; ` +
      "add an instruction to the task.",
  );
}
