// What a kind of task makes of a world: what the user wants, what would be right, and what has to be said. And what all kinds
// share: how a member refers to a record, a granted and a forbidden wish, and what counts as having told something.

import type { AgendaSlot, EnvironmentCall, AgendaGoal } from "../../../core/environment.ts";
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

/** The agenda of a goal with nothing to confirm, nothing to ask for and no second thought, but for what is given. */
export function agendaOf(
  name: string,
  requests: readonly string[],
  parts: Partial<Pick<AgendaGoal, "slots" | "confirmation" | "settledBy">>,
): AgendaGoal {
  const { slots = [], confirmation = null, settledBy = [] } = parts;
  return { name, requests, slots, confirmation, secondThought: null, settledBy, objections: [] };
}

/** What the user wants, before it is decided what comes of it. */
export type Wish = Pick<Goal, "agenda" | "instruction">;

/** The desk can do it. */
export function granted(
  wish: Wish,
  outcome: {
    readonly gold: EnvironmentCall;
    readonly fact: Fact;
    readonly combination: string;
    /** What the user thinks of instead when asked to confirm; `null`: it keeps to its wish. */
    readonly change: { readonly to: AgendaGoal["secondThought"]; readonly instruction: string } | null;
  },
): GoalParts {
  const { gold, fact, combination, change } = outcome;
  return {
    agenda: { ...wish.agenda, secondThought: change?.to ?? null },
    instruction:
      wish.instruction +
      (change === null ? "" : ` When you are asked to confirm, change your mind: ${change.instruction}`),
    gold: [gold],
    facts: [fact],
    combination,
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
  const reason = told(world, { source, said: [...said, `rule ${rule}`] });
  return {
    agenda: { ...wish.agenda, objections: objectionsOf(world) },
    instruction: wish.instruction,
    gold: [call("decline", { id, rule })],
    facts: rule === 1 ? [] : [reason],
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
  const names = [order.id, ...titles];
  const askedBy = ["order number", "order id", "which order", "what order", "order details", "order you mean"];
  if (knowledge === "lost") {
    return {
      phrase: world.draw.chance(0.5) ? `my order of ${title}` : "one of my orders",
      exact: `my order of ${title}`,
      names,
      slot: {
        name: "order",
        askedBy,
        answers: [`I lost the number. It is the one with ${title}.`, `No idea. ${title} is in it.`],
      },
      prose: `your order of "${title}" (you have lost the number)`,
    };
  }
  return {
    phrase: knowledge === "given" ? `order ${order.id}` : "one of my orders",
    exact: `order ${order.id}`,
    names,
    slot: { name: "order", askedBy, answers: [`It is ${order.id}.`, `${order.id}.`, `The number is ${order.id}.`] },
    prose: `order ${order.id}`,
  };
}

export function cardReference(card: Card, knowledge: Knowledge): Reference {
  const askedBy = ["card number", "card id", "which card", "what card"];
  const isLost = knowledge === "lost";
  return {
    phrase: knowledge === "given" ? `gift card ${card.id}` : "my gift card",
    exact: isLost ? "my only gift card" : `gift card ${card.id}`,
    names: isLost ? [card.id, "card"] : [card.id],
    slot: {
      name: "card",
      askedBy,
      answers: isLost
        ? ["I only have the one.", "No idea, but I have only one."]
        : [`It is ${card.id}.`, `${card.id}.`, `The card says ${card.id}.`],
    },
    prose: isLost ? "your gift card (you have only one and do not know its id)" : `gift card ${card.id}`,
  };
}

/** The ways of asking, each with the same aside half of the time. */
export function requestsOf(world: World, kind: Kind, wishes: readonly string[]): readonly string[] {
  const aside = world.draw.chance(0.5) ? ` ${world.draw.pick(asides[kind]!)}` : "";
  return wishes.map((wish) => `${wish}${aside}`);
}

/** What a member says at a refusal: nothing most of the time. */
export function objectionsOf(world: World): readonly string[] {
  return world.draw.chance(0.3) ? [world.draw.pick(objections)] : [];
}

export function call(name: string, args: Readonly<Record<string, JsonValue>>): EnvironmentCall {
  return { name, arguments: new Map(Object.entries(args)) };
}

export function amountFact(world: World, amount: number): Fact {
  return told(world, { source: `$${amount}`, said: [`$${amount}`, `${amount} dollars`] });
}

export function daysFact(world: World, days: number): Fact {
  const word = numberWords[days];
  return told(world, {
    source: `${days} days`,
    said: [`${days} days`, ...(word === undefined ? [] : [`${word} days`])],
  });
}

/** A fact about the member's own things: it counts only after the member was looked up. */
export function told(world: World, { source, said }: { source: string; said: readonly string[] }): Fact {
  return { sources: [world.member.name, source], said };
}

const numberWords = [
  "",
  "",
  "two",
  "three",
  "four",
  "five",
  "six",
  "seven",
  "eight",
  "nine",
  "ten",
  "eleven",
  "twelve",
];
