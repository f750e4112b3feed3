// The structured goal of an agenda-based simulated user, as data of a task. `users/agenda.ts` follows it.

/**
 * A fact that the user can tell on request. A user who does not know it says so in `answers`, or
 * offers other facts that help.
 */
export type AgendaSlot = {
  /** Unique among slots of one list; for logs. */
  readonly name: string;
  /**
   * Phrases by which an agent may ask for it ("order number"), lower case. A phrase matches if each
   * of its words begins a word of one asking sentence, in any order.
   */
  readonly phrases: readonly string[];
  /** Whole sentences that answer the question; one is chosen by seed. */
  readonly answers: readonly string[];
};

/** Facts that the user checks in a proposal before it says yes. */
export type AgendaConfirmation = {
  /**
   * For each thing that a proposal must name, its possible names (compared without case); all
   * things must be named.
   */
  readonly mustName: readonly (readonly string[])[];
  /** Whole sentences that correct a wrong or vague proposal; one is chosen by seed. */
  readonly corrections: readonly string[];
};

/**
 * A change of mind: said once, in place of the yes to the first correct proposal. From then on its
 * parts replace the goal's.
 */
export type AgendaSecondThought = {
  readonly utterances: readonly string[];
  readonly slots: readonly AgendaSlot[];
  readonly confirmation: AgendaConfirmation;
};

/** One request of the user. */
export type AgendaGoal = {
  /** For logs. */
  readonly name: string;
  /** Ways of asking for it, whole sentences; one is chosen by seed. */
  readonly requests: readonly string[];
  readonly slots: readonly AgendaSlot[];
  /** `null` if there is nothing to confirm (for example, a question of the user). */
  readonly confirmation: AgendaConfirmation | null;
  /** `null` if the user does not change its mind. Only together with a confirmation. */
  readonly secondThought: AgendaSecondThought | null;
  /**
   * Phrases (whole words, compared without case) that make a statement settle the goal, even if it
   * did not ask for a yes.
   */
  readonly settledBy: readonly string[];
  /**
   * Replies to refusals, one after another; the refusal after the last is accepted and settles the
   * goal.
   */
  readonly objections: readonly string[];
};

/**
 * The structured goal of an agenda-based simulated user (Schatzmann et al. 2007): its requests in
 * order, the facts that it can tell, the proposals that it confirms, and its patience. Data only;
 * `users/` follows it. It holds whole sentences, and phrases to match, never a record of the
 * environment, so any domain can write one.
 */
export type Agenda = {
  /** Whole sentences before the first request; one is chosen by seed, an empty one is omitted. */
  readonly greetings: readonly string[];
  /** Things that the user can tell at any time (who it is). */
  readonly slots: readonly AgendaSlot[];
  /**
   * Goals in the order in which they are pursued, the next one when the last is settled. At least
   * one.
   */
  readonly goals: readonly AgendaGoal[];
  /** Last utterances of a user whose goals are settled; one is chosen by seed. */
  readonly farewells: readonly string[];
  /** Unhelpful lines of the agent before the user hangs up. At least one. */
  readonly patience: number;
};
