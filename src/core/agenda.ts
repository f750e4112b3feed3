// The structured goal of an agenda-based simulated user, as data of a task. `users/agenda.ts` follows it.

/** Something the user can tell on request. A user who does not know says so in `answers`, or tells what else helps. */
export type AgendaSlot = {
  /** Unique among the slots that stand together; for logs. */
  readonly name: string;
  /**
   * Phrases by which an agent may ask for it ("order number"), lower case. A phrase is heard when each of its words begins
   * a word of one asking sentence, in any order.
   */
  readonly askedBy: readonly string[];
  /** Whole sentences that answer; one is chosen by seed. */
  readonly answers: readonly string[];
};

/** Facts that the user checks in a proposal before it says yes. */
export type AgendaConfirmation = {
  /** For each thing that a proposal must name, the ways of naming it (compared without case); all things must be named. */
  readonly mustName: readonly (readonly string[])[];
  /** Whole sentences that put a wrong or vague proposal right; one is chosen by seed. */
  readonly corrections: readonly string[];
};

/** A change of mind: said once, in place of the yes to the first right proposal. From then on its parts replace the goal's. */
export type AgendaSecondThought = {
  readonly words: readonly string[];
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
  /** `null`: nothing is to be done that the user would say yes to (it wants to know something, say). */
  readonly confirmation: AgendaConfirmation | null;
  /** `null`: the user knows its mind. Only together with a confirmation. */
  readonly secondThought: AgendaSecondThought | null;
  /** Phrases (whole words, compared without case) that make a statement settle the goal, whether or not it requested a yes. */
  readonly settledBy: readonly string[];
  /** Said one after another at refusals; the refusal after the last is accepted and settles the goal. */
  readonly objections: readonly string[];
};

/**
 * The structured goal of an agenda-based simulated user (Schatzmann et al. 2007): what it requests, in which order, what it can
 * tell, what it says yes to, and how much it puts up with. Data only; `users/` follows it. It holds whole sentences and phrases
 * to listen for, never a record of the environment, so any domain can write one.
 */
export type Agenda = {
  /** Whole sentences before the first request; one is chosen by seed, an empty one says nothing. */
  readonly greetings: readonly string[];
  /** Things that the user can tell at any time (who it is). */
  readonly slots: readonly AgendaSlot[];
  /** Pursued in this order, the next one when the last is settled. At least one. */
  readonly goals: readonly AgendaGoal[];
  /** Last utterances of a user whose goals are settled; one is chosen by seed. */
  readonly farewells: readonly string[];
  /** Lines of the agent that lead nowhere before the user hangs up. At least one. */
  readonly patience: number;
};
