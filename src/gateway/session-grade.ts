// Rewards that a program reports for single turns, aligned with the record: when they are reported,
// and once the session has ended. A grade may arrive before the last call, and an answer that was
// sampled may never be delivered.

import { type Episode, type Grade, messageOf } from "../core/index.ts";
import { alignTurnRewards, completeTurnRewards, discardedTurns } from "../trajectories/index.ts";
import type { SessionRecord } from "./record.ts";
import { GatewayError } from "./request.ts";

/**
 * Aligns the rewards of turns with the turns so far. Throws a `GatewayError` if their number
 * differs or they do not add up. Turns that were sampled but never read do not count, because the
 * program does not know them.
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

/**
 * Aligns the rewards of the grade with the final turns; turns whose answers were never read are
 * skipped.
 */
export function gradeAtEnd(grade: Grade | null, record: Pick<Episode, "trajectory" | "events">): Grade | null {
  const given = grade?.turnRewards ?? null;
  if (grade === null || given === null) return grade;
  const discarded = discardedTurns(record);
  const counts = record.trajectory.turns.map(({ index }) => !discarded.has(index));
  return { ...grade, turnRewards: completeTurnRewards(given, grade.reward, counts) };
}
