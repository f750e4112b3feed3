// What a program says that the turns of its session earned, aligned with the record: when it says it, and once the session has
// ended. A grade may come before the last call, and an answer that was sampled may never arrive.

import { type Episode, type Grade, messageOf } from "../core/index.ts";
import { alignTurnRewards, completeTurnRewards, discardedTurns } from "../trajectories/index.ts";
import type { SessionRecord } from "./record.ts";
import { GatewayError } from "./request.ts";

/**
 * Throws a `GatewayError` for rewards of turns that are not one for each turn so far, or do not add up. A turn that was sampled
 * and not read is none that the program knows.
 */
export function gradeSoFar(grade: Grade, record: Pick<SessionRecord, "turns" | "ofTurn">): Grade {
  const given = grade.turnRewards ?? null;
  if (given === null) return grade;
  const counts = record.turns.map(({ index }) => record.ofTurn(index) !== null);
  try {
    return { ...grade, turnRewards: alignTurnRewards(given, grade.reward, counts) };
  } catch (cause) {
    const message = `Cannot grade the session: ${messageOf(cause)}`;
    throw new GatewayError("invalid-request", message, { param: "turn_rewards", cause });
  }
}

/** What was known when the grade came, for the turns as they are now: those that nobody read are left out. */
export function gradeAtEnd(grade: Grade | null, record: Pick<Episode, "trajectory" | "events">): Grade | null {
  const given = grade?.turnRewards ?? null;
  if (grade === null || given === null) return grade;
  const discarded = discardedTurns(record);
  const counts = record.trajectory.turns.map(({ index }) => !discarded.has(index));
  return { ...grade, turnRewards: completeTurnRewards(given, grade.reward, counts) };
}
