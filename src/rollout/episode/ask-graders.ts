// The graders of an episode that has ended, and the question of its environment: what each asks its judge, and what the answer means.
// How a judgement is recorded, and taken from the record, is the loop's.

import type { EpisodeGrader, EpisodeToGrade, Verdict } from "../../core/grading.ts";
import { AttributedError, attribute } from "../../core/failure.ts";
import type { Judge, Judgement, Question } from "../../core/judge.ts";
import { digestOf } from "../grading.ts";
import type { Ending } from "./ending.ts";
import type { EventOf } from "./recorded-events.ts";

export type Steps = {
  /** The judgement as it is recorded, or live. */
  readonly judgement: (ask: (signal: AbortSignal) => Promise<Judgement>) => Promise<EventOf<"judgement"> | Ending>;
  readonly diverged: (difference: string) => AttributedError;
};

/** Asks one after another. Resolves with their verdicts in order; throws faults attributed to boundary "grader". */
export async function askGraders(
  graders: readonly EpisodeGrader[],
  episode: EpisodeToGrade,
  steps: Steps,
): Promise<readonly Verdict[]> {
  const verdicts: Verdict[] = [];
  for (const grader of graders) {
    const question = attributed(() => grader.question(episode));
    const answer = await askJudge(grader.judge, question, steps);
    verdicts.push(attributed(() => question.read(answer)));
  }
  return verdicts;
}

/** The answer to a question, which can read it. */
export async function askJudge(
  judge: Judge,
  question: Question<unknown>,
  { judgement, diverged }: Steps,
): Promise<string> {
  const event = await judgement((signal) => judge.ask(question, { signal }));
  if (event.type === "ending") throw diverged("it ended before it was graded");
  const { answer, failure, digest } = event.judgement;
  if (digest !== digestOf(question)) throw diverged(`"${question.grader}" asks its judge something else`);
  if (failure !== null) throw new AttributedError(failure);
  return answer ?? "";
}

function attributed<T>(action: () => T): T {
  try {
    return action();
  } catch (error) {
    throw attribute(error, "grader");
  }
}
