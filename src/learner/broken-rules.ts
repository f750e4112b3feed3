// What an episode broke on its way. Rewards say only whether everything was right in the end, and compare episodes of one
// task: where a policy always breaks the same rule, they have nothing to compare.

import type { Episode } from "../core/index.ts";

/** The grade's metric `ruleViolations`; 0 where the environment counts none, and where the episode was not graded. */
export function brokenRules({ grade }: Pick<Episode, "grade">): number {
  return grade?.metrics["ruleViolations"] ?? 0;
}
