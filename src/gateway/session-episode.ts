// Episode of an ended session, regardless of which model answered its calls.

import { type Episode, type Failure, type Grade, outcomeOf, type StopReason } from "../core/index.ts";
import { gradeAtEnd } from "./session-grade.ts";
import type { SessionSettings } from "./session-settings.ts";

/** `grade`: the last recorded grade. An episode that did not end normally is not graded. */
export function endedEpisode(
  { id, groupId, sampleIndex, task, seed }: Pick<SessionSettings, "id" | "groupId" | "sampleIndex" | "task" | "seed">,
  ended: Pick<Episode, "messages" | "trajectory" | "historyPolicy" | "events" | "problems"> & {
    readonly stopReason: StopReason;
    readonly failure: Failure | null;
    readonly grade: Grade | null;
  },
): Episode {
  const { stopReason, failure, ...record } = ended;
  const outcome = outcomeOf(stopReason);
  const isGraded = outcome === "completed" || outcome === "truncated";
  const grade = isGraded ? gradeAtEnd(ended.grade, record) : null;
  return {
    id,
    groupId,
    sampleIndex,
    task,
    seed,
    outcome,
    stopReason,
    failure,
    ...record,
    grade,
    reward: grade?.reward ?? null,
    info: grade?.info ?? new Map(),
  };
}
