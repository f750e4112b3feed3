// Sentences and facts that goals share: how a member refers to an order or a card, and what counts as having told a day,
// an amount or a reason.

import type { AgendaSlot, EnvironmentCall } from "../../../core/environment.ts";
import type { JsonValue } from "../../../python-semantics/json/value.ts";
import type { Kind } from "../kinds.ts";
import type { Card, Order } from "../shop.ts";
import { asides, objections } from "../words.ts";
import type { World } from "../world.ts";
import type { Fact } from "./goal.ts";

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

/** That a rule forbids it, for the reason that the record of `id` shows. */
export function reasonFact(
  world: World,
  { id, rule, said }: { id: string; rule: number; said: readonly string[] },
): Fact {
  return told(world, { source: id, said: [...said, `rule ${rule}`] });
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
