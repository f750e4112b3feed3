// What a kind of task makes of a world: what the user wants, what would be right, and what has to be said. And what all kinds
// share: how a member refers to a record, a granted and a forbidden wish, and what counts as having told something.

import type { AgendaGoal, AgendaSlot } from "../../../core/agenda.ts";
import type { EnvironmentCall } from "../../../core/environment.ts";
import type { JsonValue } from "../../../python-semantics/json/value.ts";
import type { Card, Order } from "../shop.ts";
import { asides, objections } from "../words.ts";
import type { Kind, World } from "../world.ts";

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

/** What the case decides of a goal. */
export type GoalParts = Omit<Goal, "kind" | "caseName">;

/** One situation of a kind. */
export type GoalCase = {
  readonly kind: Kind;
  readonly name: string;
  /** 1: plain. 2: with a twist. */
  readonly level: 1 | 2;
  /** The case needs a gold member; others do with any. */
  readonly needsGold: boolean;
  build(world: World): GoalParts;
};

/** A case that does with any member. */
export function goalCase(kind: Kind, name: string, level: 1 | 2, build: (world: World) => GoalParts): GoalCase {
  return { kind, name, level, needsGold: false, build };
}

/** What the user can tell about what it wants, and what it compares a proposal with. */
export type Aim = Pick<AgendaGoal, "slots" | "confirmation">;

export const noAim: Aim = { slots: [], confirmation: null };

/** What the user wants, before it is decided what comes of it. */
export type Wish = Pick<Goal, "agenda" | "instruction">;

/** A wish in several ways of asking, each with the same aside half of the time. */
export function wishOf(
  world: World,
  kind: Kind,
  parts: Aim & {
    /** Of the agenda. Default: the kind. */
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

/** The desk can do it. */
export function granted(
  wish: Wish,
  outcome: {
    readonly gold: EnvironmentCall;
    readonly fact: Fact;
    readonly combination: string;
    /** What the user thinks of instead when asked to confirm; `null`: it keeps to its wish. */
    readonly change: (Aim & { readonly words: readonly string[]; readonly instruction: string }) | null;
  },
): GoalParts {
  const { gold, fact, combination, change } = outcome;
  const parts = { gold: [gold], facts: [fact], combination };
  if (change === null) return { ...wish, ...parts };
  const { words, slots, confirmation, instruction } = change;
  return {
    agenda: { ...wish.agenda, secondThought: { words, slots, confirmation: confirmation! } },
    instruction: `${wish.instruction} When you are asked to confirm, change your mind: ${instruction}`,
    ...parts,
  };
}

/** A rule forbids it. The reason must be said, unless the record is a stranger's (rule 1). */
export function forbidden(
  world: World,
  wish: Wish,
  refusal: {
    readonly id: string;
    readonly rule: number;
    /** Ways of saying why. */
    readonly said: readonly string[];
    /** What shows the reason, looked up. Default: the record's own line. */
    readonly source?: string;
    readonly combination: string;
  },
): GoalParts {
  const { id, rule, said, source = `${id} of`, combination } = refusal;
  // What a member says at a refusal: nothing most of the time.
  const objection = world.draw.chance(0.3) ? [world.draw.pick(objections)] : [];
  return {
    agenda: { ...wish.agenda, objections: objection },
    instruction: wish.instruction,
    gold: [call("decline", { id, rule })],
    facts: rule === 1 ? [] : [told(world, source, [...said, `rule ${rule}`])],
    combination,
  };
}

/** How the user knows a record: says its id at once, tells it when asked, or has lost it. */
export type Knowledge = "given" | "asked" | "lost";

/** How a member speaks of a record. */
export type Reference = {
  /** In a request: "order #W1042", "one of my orders". */
  readonly phrase: string;
  /** When put right: always tells enough to find it. */
  readonly exact: string;
  /** The ways in which a proposal may name it. */
  readonly names: readonly string[];
  readonly slot: AgendaSlot;
  /** For the prose instruction. */
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
      askedBy: ["order number", "order id", "which order", "what order", "order details", "order you mean"],
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
      askedBy: ["card number", "card id", "which card", "what card"],
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

/** From 2 on. */
export const numberWords = "two three four five six seven eight nine ten eleven twelve".split(" ");

/** Of 2 days or more. */
export function daysFact(world: World, days: number): Fact {
  const word = numberWords[days - 2];
  return told(world, `${days} days`, [`${days} days`, ...(word === undefined ? [] : [`${word} days`])]);
}

/** A fact about the member's own things: it counts only after the member was looked up. */
export function told(world: World, source: string, said: readonly string[]): Fact {
  return { sources: [world.member.name, source], said };
}
