// The goals that each kind of task builds from a world: the user's wish, the right actions, and the
// facts to tell. And the parts that all kinds share: how a member refers to a record, a granted and
// a forbidden wish, and when a fact counts as told.

import type { AgendaGoal, AgendaSlot } from "../../../core/agenda.ts";
import type { EnvironmentCall } from "../../../core/environment.ts";
import type { JsonValue } from "../../../python-semantics/json/value.ts";
import type { Card, Order } from "../shop.ts";
import { asides, objections } from "../words.ts";
import type { Kind, World } from "../world.ts";

/** A fact that the member has to be told. */
export type Fact = {
  /**
   * The fact counts only if tools have reported all of these before it was said, so that guessing
   * earns nothing.
   */
  readonly sources: readonly string[];
  /** Ways of saying it (see `mentions` in `lib/`); the first is shown to people. */
  readonly said: readonly string[];
};

export type Goal = {
  readonly kind: Kind;
  /** Name of the case within the kind. */
  readonly caseName: string;
  readonly agenda: AgendaGoal;
  /** Instruction for a user simulated by a model, in whole sentences. */
  readonly instruction: string;
  /** Calls that bring the data into its gold end state. */
  readonly gold: readonly EnvironmentCall[];
  readonly facts: readonly Fact[];
  /** The goal without ids: case and values. Train and test have none in common. */
  readonly combination: string;
};

/** The parts of a goal that its case decides. */
export type GoalParts = Omit<Goal, "kind" | "caseName">;

/** One situation of a kind. */
export type GoalCase = {
  readonly kind: Kind;
  readonly name: string;
  /** Difficulty: 1 is plain, 2 has a twist. */
  readonly level: 1 | 2;
  /** True if the case needs a gold member; other cases work with any member. */
  readonly needsGold: boolean;
  build(world: World): GoalParts;
};

/** A case that works with any member. */
export function goalCase(kind: Kind, name: string, level: 1 | 2, build: (world: World) => GoalParts): GoalCase {
  return { kind, name, level, needsGold: false, build };
}

/** The details that the user can give about its wish, and those that it checks in a proposal. */
export type Aim = Pick<AgendaGoal, "slots" | "confirmation">;

export const noAim: Aim = { slots: [], confirmation: null };

/** The user's wish, before its result is decided. */
export type Wish = Pick<Goal, "agenda" | "instruction">;

/** A wish with several ways of requesting it; half of the time all of them carry the same aside. */
export function wishOf(
  world: World,
  kind: Kind,
  parts: Aim & {
    /** Name of the goal in the agenda. Default: the kind. */
    readonly name?: string;
    readonly requests: readonly string[];
    readonly settledBy: readonly string[];
    readonly instruction: string;
  },
): Wish {
  const { name = kind, slots, confirmation, settledBy, instruction } = parts;
  const aside = world.draw.chance(0.5) ? ` ${world.draw.pick(asides[kind]!)}` : "";
  const requests = parts.requests.map((request) => `${request}${aside}`);
  return {
    agenda: { name, requests, slots, confirmation, secondThought: null, settledBy, objections: [] },
    instruction,
  };
}

/** A wish that the desk can fulfil. */
export function granted(
  wish: Wish,
  outcome: {
    readonly gold: EnvironmentCall;
    readonly fact: Fact;
    readonly combination: string;
    /** The user's new choice when asked to confirm; `null` if the user keeps to its wish. */
    readonly change: (Aim & { readonly words: readonly string[]; readonly instruction: string }) | null;
  },
): GoalParts {
  const { gold, fact, combination, change } = outcome;
  const parts = { gold: [gold], facts: [fact], combination };
  if (change === null) return { ...wish, ...parts };
  const { words, slots, confirmation, instruction } = change;
  return {
    agenda: { ...wish.agenda, secondThought: { utterances: words, slots, confirmation: confirmation! } },
    instruction: `${wish.instruction} When you are asked to confirm, change your mind: ${instruction}`,
    ...parts,
  };
}

/**
 * A wish that a rule forbids. The reason must be said, unless the record belongs to a stranger
 * (rule 1).
 */
export function forbidden(
  world: World,
  wish: Wish,
  refusal: {
    readonly id: string;
    readonly rule: number;
    /** Ways of saying the reason. */
    readonly said: readonly string[];
    /**
     * Text of the looked-up record that shows the reason. Default: the start of the record's own
     * line.
     */
    readonly source?: string;
    readonly combination: string;
  },
): GoalParts {
  const { id, rule, said, source = `${id} of`, combination } = refusal;
  // The member's objection to a refusal; most members make none.
  const objection = world.draw.chance(0.3) ? [world.draw.pick(objections)] : [];
  return {
    agenda: { ...wish.agenda, objections: objection },
    instruction: wish.instruction,
    gold: [call("decline", { id, rule })],
    facts: rule === 1 ? [] : [told(world, source, [...said, `rule ${rule}`])],
    combination,
  };
}

/**
 * The user's knowledge of a record's id: it says the id at once, says it when asked, or has lost
 * it.
 */
export type Knowledge = "given" | "asked" | "lost";

/** A member's ways of referring to a record. */
export type Reference = {
  /** The reference in a request: "order #W1042", "one of my orders". */
  readonly phrase: string;
  /** The reference in a correction: always enough to find the record. */
  readonly exact: string;
  /** Names of the record that a proposal may use. */
  readonly names: readonly string[];
  readonly slot: AgendaSlot;
  /** The reference in the prose instruction. */
  readonly prose: string;
};

export function plainKnowledge(world: World): Knowledge {
  return world.draw.chance(0.6) ? "given" : "asked";
}

export function orderReference(world: World, order: Order, knowledge: Knowledge): Reference {
  const titles = world.titlesOf(order);
  const title = titles[0]!;
  const isLost = knowledge === "lost";
  const exact = isLost ? `my order of ${title}` : `order ${order.id}`;
  const isExact = knowledge === "given" || (isLost && world.draw.chance(0.5));
  return {
    phrase: isExact ? exact : "one of my orders",
    exact,
    names: [order.id, ...titles],
    slot: {
      name: "order",
      phrases: ["order number", "order id", "which order", "what order", "order details", "order you mean"],
      answers: isLost
        ? [`I lost the number. It is the one with ${title}.`, `No idea. ${title} is in it.`]
        : [`It is ${order.id}.`, `${order.id}.`, `The number is ${order.id}.`],
    },
    prose: isLost ? `your order of "${title}" (you have lost the number)` : exact,
  };
}

export function cardReference(card: Card, knowledge: Knowledge): Reference {
  const isLost = knowledge === "lost";
  const exact = isLost ? "my only gift card" : `gift card ${card.id}`;
  return {
    phrase: knowledge === "given" ? exact : "my gift card",
    exact,
    names: isLost ? [card.id, "card"] : [card.id],
    slot: {
      name: "card",
      phrases: ["card number", "card id", "which card", "what card"],
      answers: isLost
        ? ["I only have the one.", "No idea, but I have only one."]
        : [`It is ${card.id}.`, `${card.id}.`, `The card says ${card.id}.`],
    },
    prose: isLost ? "your gift card (you have only one and do not know its id)" : exact,
  };
}

export function call(name: string, args: Readonly<Record<string, JsonValue>>): EnvironmentCall {
  return { name, arguments: new Map(Object.entries(args)) };
}

export function amountFact(world: World, amount: number): Fact {
  return told(world, `$${amount}`, [`$${amount}`, `${amount} dollars`]);
}

/** Number words, starting at 2. */
export const numberWords = "two three four five six seven eight nine ten eleven twelve".split(" ");

/** The fact of a number of days, at least 2. */
export function daysFact(world: World, days: number): Fact {
  const word = numberWords[days - 2];
  return told(world, `${days} days`, [`${days} days`, ...(word === undefined ? [] : [`${word} days`])]);
}

/** A fact about the member's own records: it counts only after the member was looked up. */
export function told(world: World, source: string, said: readonly string[]): Fact {
  return { sources: [world.member.name, source], said };
}
