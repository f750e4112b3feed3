// A user that says given lines, for tests, goldens and docs. Not a mock: it fulfils the whole
// contract, faults included, and both a call without a line and an unused line are errors.

import { freeUsage, type UserLine, type UserSimulator, type UserSource } from "../core/index.ts";
import {
  cancelledFailure,
  type HeardByUser,
  lineFrom,
  orderedUser,
  rehearsedUser,
  userFailure,
  type UserFailureCode,
} from "./conversation.ts";

/** Text (a hang-up if it contains the stop marker), a whole line, or a fault. */
export type UserStep =
  | string
  | UserLine
  | { readonly type: "fault"; readonly code: UserFailureCode; readonly message: string };

export interface ScriptedUser extends UserSimulator {
  /** The agent's utterances so far, one per `reply`. */
  readonly utterances: readonly string[];
  /** Throws if a call found no line, or if lines are left. */
  verify(): void;
}

/** A user that goes through the steps in order: the first answers `open`. */
export function scriptedUser(steps: readonly UserStep[]): ScriptedUser {
  const heard: string[] = [];
  const unexpected: string[] = [];
  let played = 0;
  const user = orderedUser("scripted", async (utterance, signal) => {
    if (typeof utterance === "string") heard.push(utterance);
    if (signal?.aborted) throw cancelledFailure("ask the scripted user", signal);
    const step = steps[played];
    if (step === undefined) {
      const call = utterance === null ? "open()" : `reply ${heard.length} (${shownHeard(utterance)})`;
      const message = `Cannot answer ${call} as user "scripted": all ${steps.length} lines have been used; add one more line.`;
      unexpected.push(message);
      throw new Error(message);
    }
    played++;
    if (typeof step === "string") return lineFrom(step, freeUsage);
    if (step.type === "fault") throw userFailure(step.code, step.message);
    return step;
  });
  return {
    ...user,
    utterances: heard,
    verify: () => {
      if (unexpected.length > 0) throw new Error(unexpected[0]);
      if (played < steps.length) {
        throw new Error(
          `Cannot accept the scripted conversation: ${steps.length - played} of ${steps.length} lines were never requested; ` +
            `the next is ${JSON.stringify(steps[played])}.`,
        );
      }
    },
  };
}

function shownHeard(heard: HeardByUser): string {
  return JSON.stringify(typeof heard === "string" ? heard : heard?.map(({ text }) => text));
}

export interface ScriptedUserSource extends UserSource {
  /** Users made so far, in order. */
  readonly users: readonly ScriptedUser[];
  /** Verifies every user, and that at least one was made. */
  verify(): void;
}

/** A source whose users all say the same lines, for every task. */
export function scriptedUsers(steps: readonly UserStep[]): ScriptedUserSource {
  const users: ScriptedUser[] = [];
  const create = (): ScriptedUser => {
    const user = scriptedUser(steps);
    users.push(user);
    return user;
  };
  return {
    name: "scripted",
    users,
    create,
    resume: (_, { lines: spoken }) => rehearsedUser(create(), spoken),
    verify: () => {
      if (users.length === 0) throw new Error("Cannot accept the scripted users: no episode has created one.");
      for (const user of users) user.verify();
    },
  };
}
