// What a kind of task makes of a world: what the user wants, what would be right, and what has to be said.

import type { AgendaGoal, EnvironmentCall } from "../../../core/environment.ts";
import type { Kind } from "../kinds.ts";
import type { World } from "../world.ts";

/** Something the member has to be told. */
export type Fact = {
  /** Counts only when tools have reported all of these before it was said: nobody gets a point for guessing. */
  readonly sources: readonly string[];
  /** Ways of saying it (`mentions` of `lib/`); the first is shown to people. */
  readonly said: readonly string[];
};

export type Goal = {
  readonly kind: Kind;
  /** Name of the case within the kind. */
  readonly caseName: string;
  readonly agenda: AgendaGoal;
  /** What a user simulated by a model is told, whole sentences. */
  readonly instruction: string;
  /** Calls that bring the data into its gold end state. */
  readonly gold: readonly EnvironmentCall[];
  readonly facts: readonly Fact[];
  /** The goal without ids: case and values. Train and test share none. */
  readonly combination: string;
};

/** One situation of a kind. */
export type GoalCase = {
  readonly kind: Kind;
  readonly name: string;
  /** 1: plain. 2: with a twist. */
  readonly level: 1 | 2;
  /** The case needs a gold member; others do with any. */
  readonly needsGold: boolean;
  build(world: World): Omit<Goal, "kind" | "caseName">;
};
