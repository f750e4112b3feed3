// Contracts of grading beside the environment: graders of one episode, and of a whole group. Their
// values and the environment's reward are combined by weight (`rollout/grading.ts`).

import type { Ending, Task } from "./environment.ts";
import type { Episode, EpisodeEvent } from "./episode.ts";
import type { Judge, Question } from "./judge.ts";

/** A grader's finding about one episode. */
export type Verdict = {
  /** Score from 0 to 1. */
  readonly value: number;
  /** Metrics in addition to the value itself, whose metric is the grader's name. Finite. */
  readonly metrics: Readonly<Record<string, number>>;
  /** For people. */
  readonly log: string;
};

/** An ended episode that is being graded. */
export type EpisodeToGrade = {
  readonly task: Task;
  readonly guidelines: string;
  readonly ending: Ending;
  readonly events: readonly EpisodeEvent[];
};

type JudgedBy<Shown> = {
  /** Unique among the graders of an episode; the name of its metric. */
  readonly name: string;
  /** Weight relative to the other graders. At least 0. */
  readonly weight: number;
  readonly judge: Judge;
} & Shown;

/** Grades one episode. */
export type EpisodeGrader = JudgedBy<{
  /**
   * Throws an error for an episode that cannot be shown to a judge, preferably attributed to
   * boundary "grader".
   */
  question(episode: EpisodeToGrade): Question<Verdict>;
}>;

/** Compares the episodes of a group. */
export type GroupRanker = JudgedBy<{
  /**
   * `episodes` are graded, at least two, in the order in which they are shown; verdicts are in the
   * same order. Throws like the question of an `EpisodeGrader`.
   */
  question(episodes: readonly Episode[]): Question<readonly Verdict[]>;
}>;

/** Judge, graders and weights of a run. */
export type Grading = {
  /** The judge that answers the questions of environments; `null` if there is none. */
  readonly judge: Judge | null;
  /**
   * Weight of the environment's own reward; 0 makes it only a metric. `null` if the environment has
   * no reward of its own.
   */
  readonly environmentWeight: number | null;
  readonly graders: readonly EpisodeGrader[];
  /** `null`: episodes are not compared. */
  readonly ranker: GroupRanker | null;
};
