// The values of graders, combined into one reward. The loop asks their judges
// (`episode/grade-episode.ts`).

import { createHash } from "node:crypto";
import type { Grade, Grading, Question, Verdict } from "../core/index.ts";

/** `Judgement.digest` of a question. */
export function digestOf({ messages, schema }: Pick<Question<unknown>, "messages" | "schema">): string {
  return createHash("sha256").update(JSON.stringify({ messages, schema })).digest("hex");
}

/**
 * Combines a grade with the values of graders: the reward is the weighted mean, and each value a
 * metric.
 */
export function combineGrades(
  { environmentWeight, graders }: Pick<Grading, "environmentWeight" | "graders">,
  own: Grade,
  verdicts: readonly Verdict[],
): Grade {
  let grade: Grade = own;
  if (environmentWeight !== null) grade = { ...own, metrics: { ...own.metrics, environment: own.reward } };
  let weight = environmentWeight ?? 0;
  for (const [index, grader] of graders.entries()) {
    grade = mixGrade({ grade, weight }, grader, verdicts[index]!);
    weight += grader.weight;
  }
  return grade;
}

/** Adds one value to a grade whose weights so far sum to `weight`. */
export function mixGrade(
  { grade, weight }: { readonly grade: Grade; readonly weight: number },
  grader: { readonly name: string; readonly weight: number },
  { value, metrics, log }: Verdict,
): Grade {
  const total = weight + grader.weight;
  // Weights of zero define no mean: a ranking with a weight decides later.
  const [before, share] = total === 0 ? [1, 0] : [weight / total, grader.weight / total];
  const reward = before * grade.reward + share * value;
  const { turnRewards = null } = grade;
  const own = Object.entries(metrics).map(([name, one]) => [`${grader.name}.${name}`, one] as const);
  return {
    ...grade,
    reward,
    metrics: { ...grade.metrics, [grader.name]: value, ...Object.fromEntries(own) },
    log: [grade.log, log].filter((text) => text !== "").join("\n"),
    ...(turnRewards === null ? {} : { turnRewards: scaled(turnRewards, before, reward) }),
  };
}

/** Adds the contribution of graders to the last turn with a known reward; `null` if no turn has one. */
function scaled(turns: NonNullable<Grade["turnRewards"]>, factor: number, reward: number): (number | null)[] | null {
  const last = turns.findLastIndex((one) => one !== null);
  if (last === -1) return null;
  const rewards = turns.map((one) => (one === null ? null : one * factor));
  const others = rewards.reduce<number>((sum, one, turn) => sum + (turn === last ? 0 : (one ?? 0)), 0);
  return rewards.with(last, reward - others);
}
