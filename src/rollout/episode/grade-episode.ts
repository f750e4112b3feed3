// The grade of an ended episode: the environment's own grade, the judge's answer, and the values of
// graders combined into one reward.

import type { Ending as EndingToGrade, Grade, Task } from "../../core/environment.ts";
import { faultAt, messageOf } from "../../core/failure.ts";
import type { Grading } from "../../core/grading.ts";
import type { Trajectory } from "../../core/turn.ts";
import { gradeTurns } from "../../trajectories/index.ts";
import { askGraders, askJudge, combineGrades, type Steps } from "../grading.ts";
import type { CheckedEnvironment } from "./checked-environment.ts";
import type { Ending } from "./ending.ts";
import type { EpisodeEvents } from "./episode-events.ts";
import type { StepDeadlines } from "./step-deadlines.ts";

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
