// The graders of a rollout: only the environment, or models as well (`model-grading.ts`). Settings
// without effect are refused here, before a server is contacted.

import { ConfigurationError, type EnvironmentSource, type Grading } from "../core/index.ts";
import type { RolloutPlan } from "../rollout/index.ts";
import type { GradingContext } from "./model-grading.ts";
import type { RolloutSettings } from "./rollout-settings.ts";
import { keyOf } from "../parts/setting.ts";
import type { Surroundings } from "./surroundings.ts";

/** Settings that have no effect without a grader. */
const ofGraders = [
  "environmentWeight",
  "judgeCache",
  "judgeModel",
  "judgeUrl",
  "judgeApiKeyEnv",
  "judgeAuthorizationEnv",
] as const;

/**
 * The settings of an evaluation: it compares no episodes, and its judge may serve only to attribute
 * failures.
 */
export function gradingOfEvaluation(
  settings: RolloutSettings,
  { graders, needsJudge }: EnvironmentSource,
): RolloutSettings {
  const types = (graders?.use ?? []).map(({ type }) => type);
  const isRanked = settings.ranking !== null || types.includes("ranking");
  const isJudged = settings.rubric !== null || types.includes("rubric") || needsJudge !== undefined;
  const unjudged = { judgeModel: null, judgeUrl: null, judgeApiKeyEnv: null, judgeAuthorizationEnv: null };
  return { ...settings, ranking: isRanked ? "off" : null, ...(isJudged ? {} : unjudged) };
}

/** The message about tasks that only a judge can grade, if none is configured; `null` otherwise. */
export function missingJudge(
  grading: Grading | null,
  { needsJudge }: EnvironmentSource,
  { taskset, taskIndexes }: Pick<RolloutPlan, "taskset" | "taskIndexes">,
): string | null {
  if (grading !== null || needsJudge === undefined) return null;
  const count = taskIndexes.filter((index) => needsJudge(taskset.task(index))).length;
  if (count === 0) return null;
  return (
    `Note: ${count} of ${taskIndexes.length} tasks are graded by a judge's word, and there is no judge: their episodes have no reward; ` +
    "pass --judge-model, or choose other tasks with --tasks."
  );
}

/**
 * The grading of a rollout; `null` if only the environment grades. Throws a `ConfigurationError`
 * for settings that the user can correct.
 */
export async function chooseGrading(
  settings: RolloutSettings,
  environment: EnvironmentSource,
  context: GradingContext,
): Promise<Grading | null> {
  if (!hasGraders(settings, environment, context)) {
    const asks = environment.needsJudge !== undefined;
    const unread = ofGraders.find((name) => settings[name] !== null && !(asks && name !== "environmentWeight"));
    if (unread !== undefined) {
      throw new ConfigurationError(
        `Cannot use --${keyOf(unread)}: no model grades, so it would have no effect; pass --rubric or --ranking, or remove it.`,
      );
    }
    const isNamed = ofGraders.some((name) => settings[name] !== null) || context.parts?.judgeModel !== undefined;
    if (!asks || !isNamed) return null;
  }
  const { gradingByModels } = await import("./model-grading.ts");
  return gradingByModels(settings, environment, context);
}

/** True if a rubric or a ranking is given, or the environment is defined with one. */
function hasGraders(
  { rubric, ranking }: RolloutSettings,
  { graders }: EnvironmentSource,
  { parts }: Pick<Surroundings, "parts">,
): boolean {
  const types = (graders?.use ?? []).map(({ type }) => type);
  const isRanked = ranking === "off" ? false : ranking !== null || types.includes("ranking");
  return parts?.ranking !== undefined || isRanked || rubric !== null || types.includes("rubric");
}
