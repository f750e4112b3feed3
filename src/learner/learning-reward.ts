// What an episode is compared by: its reward, less what it broke on the way. Where a reward says only whether everything was right,
// two failures are alike, and a policy that breaks rules to get further is told nothing; a small price tells it.

import type { Episode } from "../core/index.ts";

/** `penalty`: for each rule that the grade counts as broken (metric `ruleViolations`). `null`: the episode was not graded. */
export function learningReward({ reward, grade }: Pick<Episode, "reward" | "grade">, penalty: number): number | null {
  return reward === null ? null : reward - penalty * (grade?.metrics["ruleViolations"] ?? 0);
}
