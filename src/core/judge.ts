// A model that is asked during grading, as a contract: a question whose answer can be checked, and
// the record of the call. Implementations: `graders/`.

import type { Attempt, Failure } from "./failure.ts";
import type { ModelUsage } from "./user-line.ts";

/** One call of a judge, as recorded in its episode. */
export type Judgement = {
  /** Name of the grader that asked. */
  readonly grader: string;
  /** The model that answered. */
  readonly model: string;
  /** SHA-256 (hex) of the messages and the schema: the same question has the same digest. */
  readonly digest: string;
  /** The text as the model wrote it; `null` if no answer could be used, see `failure`. */
  readonly answer: string | null;
  /** Usage of all calls, repeated ones included. Zero where the answer came from a cache. */
  readonly usage: ModelUsage;
  /** Calls that failed, or whose answer could not be used, and were repeated. */
  readonly attempts: readonly Attempt[];
  readonly isCached: boolean;
  /** The reason for a missing answer; `null` exactly when there is one. */
  readonly failure: Failure | null;
};

/**
 * A question for a judge. Derived only from an episode, or a group: the same episode gives the same
 * question.
 */
export type Question<T> = {
  /** Name of the grader. */
  readonly grader: string;
  readonly messages: readonly { readonly role: "system" | "user"; readonly content: string }[];
  /**
   * JSON Schema of the answer, for servers with structured output; `null` if only the messages
   * describe the expected answer.
   */
  readonly schema: object | null;
  /** Parses an answer. Throws a plain error that says what is wrong with it. */
  read(answer: string): T;
};

/**
 * Answers questions.
 *
 * Guarantees: it resolves with an answer that the question can read, or with a failure at boundary
 * "grader". Safe to call concurrently. Rejects only when `signal` aborts, never because of a
 * server.
 */
export interface Judge {
  readonly model: string;
  ask(question: Question<unknown>, options: { readonly signal: AbortSignal }): Promise<Judgement>;
}

// Rubrics and rankings as data: an environment can be defined with them, and the run chooses the
// judge.

export type Criterion = {
  /** Letters, digits, "-" and "_"; its metric is `<rubric>.<name>`. */
  readonly name: string;
  /** Text that the judge is shown. */
  readonly description: string;
  /** Share of the score, relative to the other weights. Above 0. */
  readonly weight: number;
  /** Worst and best score. */
  readonly scale: readonly [worst: number, best: number];
};

/** Criteria by which a model scores a conversation. Made by `defineRubric` of `graders/`. */
export type Rubric = {
  readonly type: "rubric";
  /** Name of its metric. */
  readonly name: string;
  /** Share of the reward, relative to the other graders' weights. At least 0. */
  readonly weight: number;
  /** Further text for the judge; may be empty. */
  readonly instructions: string;
  readonly criteria: readonly Criterion[];
  /** Characters of one tool result that a judge is shown. */
  readonly maxResultCharacters: number;
  /** Maximum characters of a question. A longer one is a failure of its episode. */
  readonly maxCharacters: number;
};

/** A model that compares the episodes of a group. Made by `defineRanking` of `graders/`. */
export type Ranking = Omit<Rubric, "type" | "criteria"> & { readonly type: "ranking" };
