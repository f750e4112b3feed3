// What models are to grade by, as data: an environment can be defined with it, and the run chooses the judge.

export type Criterion = {
  /** Letters, digits, "-" and "_"; its metric is `<rubric>.<name>`. */
  readonly name: string;
  /** What the judge is told. */
  readonly description: string;
  /** Share of the score, compared with the other weights. Above 0. */
  readonly weight: number;
  /** Worst and best score. */
  readonly scale: readonly [worst: number, best: number];
};

/** Criteria by which a model scores a conversation. Made by `defineRubric` of `graders/`. */
export type Rubric = {
  readonly type: "rubric";
  /** Name of its metric. */
  readonly name: string;
  /** Share of the reward, compared with the other graders' weights. At least 0. */
  readonly weight: number;
  /** Further text for the judge; may be empty. */
  readonly instructions: string;
  readonly criteria: readonly Criterion[];
  /** Characters that a judge is shown of one tool result. */
  readonly maxResultCharacters: number;
  /** Characters of a question. A longer one is a failure of its episode. */
  readonly maxCharacters: number;
};

/** A model that compares the episodes of a group. Made by `defineRanking` of `graders/`. */
export type Ranking = Omit<Rubric, "type" | "criteria"> & { readonly type: "ranking" };
