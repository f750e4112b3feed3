// The grade of an ended episode: the environment's own grade, the judge's answer, and the values of
// graders, each of which asks its judge. No model is known here: questions, and the reading of their
// answers, come as values.

import type { Ending as EndingToGrade, Grade, Task } from "../../core/environment.ts";
import { attribute, AttributedError, faultAt, messageOf } from "../../core/failure.ts";
import type { EpisodeGrader, EpisodeToGrade, Grading, Verdict } from "../../core/grading.ts";
import type { Judge, Judgement, Question } from "../../core/judge.ts";
import type { Trajectory } from "../../core/turn.ts";
import { gradeTurns } from "../../trajectories/index.ts";
import { combineGrades, digestOf } from "../grading.ts";
import type { CheckedEnvironment } from "./checked-environment.ts";
import type { Ending, StepDeadlines } from "./step-deadlines.ts";
import type { EpisodeEvents } from "./episode-events.ts";
import type { EventOf } from "./recorded-events.ts";

type Graded = {
  readonly task: Task;
  readonly trajectory: Trajectory;
  readonly grading: Grading | undefined;
  readonly events: EpisodeEvents;
  readonly steps: StepDeadlines;
};

/**
 * Throws faults attributed to boundary "grader". Returns an `Ending` if the recorded episode ended
 * here.
 */
export async function gradeEpisode(
  environment: CheckedEnvironment,
  ending: EndingToGrade,
  graded: Graded,
): Promise<Grade | Ending> {
  const { task, grading, events, steps } = graded;
  const judgements = judgementsOf(graded);
  const judge = grading?.judge ?? null;
  const question = judge === null ? null : await environment.question(ending);
  const answer = judge === null || question === null ? null : await askJudge(judge, question, judgements);
  const episode = { task, guidelines: environment.guidelines, ending, events: events.events };
  const verdicts = await askGraders(grading?.graders ?? [], episode, judgements);
  const event = await events.step("grade", "grader", async () => {
    const { result, durationMs } = await steps.timed("grader", () =>
      steps.ask("grade", (options) => environment.grade(ending, { ...options, answer })),
    );
    const own = withTurnRewards(result, graded);
    return { type: "grade", grade: grading === undefined ? own : combineGrades(grading, own, verdicts), durationMs };
  });
  return event.type === "ending" ? event : event.grade;
}

/** Judgements have no deadline here: the judge has its own, and queues its calls. */
function judgementsOf({ events, steps }: Graded): Steps {
  return {
    judgement: (ask) =>
      events.step("judgement", "grader", async () => {
        const { result, durationMs } = await steps.timed("grader", () => steps.run(ask));
        return { type: "judgement", judgement: result, ranked: null, durationMs };
      }),
    diverged: (difference) => events.diverged("grader", difference),
  };
}

/** The grade with aligned turn rewards: its own, or else those of steps. */
function withTurnRewards(grade: Grade, { trajectory, events: { events } }: Graded): Grade {
  try {
    return gradeTurns(grade, { trajectory, events });
  } catch (error) {
    throw faultAt("grader", "bad-result", `Cannot grade: ${messageOf(error)}`, { cause: error });
  }
}

type Steps = {
  /** The judgement, recorded or live. */
  readonly judgement: (ask: (signal: AbortSignal) => Promise<Judgement>) => Promise<EventOf<"judgement"> | Ending>;
  readonly diverged: (difference: string) => AttributedError;
};

/**
 * Asks the graders' judges one after another. Resolves with the verdicts in order; throws faults
 * attributed to boundary "grader".
 */
async function askGraders(
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

/** The judge's answer to a question; the question can read it. */
async function askJudge(judge: Judge, question: Question<unknown>, { judgement, diverged }: Steps): Promise<string> {
  const event = await judgement((signal) => judge.ask(question, { signal }));
  if (event.type === "ending") throw diverged("it ended before it was graded");
  const { answer, failure, digest } = event.judgement;
  if (digest !== digestOf(question)) throw diverged(`"${question.grader}" has a different question for its judge`);
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
