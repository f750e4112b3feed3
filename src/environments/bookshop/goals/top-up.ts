// "Put money on my gift card": within the limits, and on one's own.

import type { AgendaConfirmation, AgendaSlot } from "../../../core/environment.ts";
import type { Card } from "../shop.ts";
import type { World } from "../world.ts";
import type { Goal, GoalCase } from "./goal.ts";
import {
  amountFact,
  call,
  cardReference,
  type Knowledge,
  objectionsOf,
  plainKnowledge,
  reasonFact,
  type Reference,
  requestsOf,
} from "./parts.ts";

type Parts = Omit<Goal, "kind" | "caseName">;

export const topUpCases: readonly GoalCase[] = [
  topUpCase("plain", 1, (world) => topUp(world, world.draw.amount(10, 50), plainKnowledge(world))),
  topUpCase("lost", 2, (world) => topUp(world, world.draw.amount(10, 50), "lost")),
  topUpCase("too-much", 2, (world) => refused(world, world.card(), { rule: 7, amount: world.draw.amount(55, 95) })),
  topUpCase("too-little", 2, (world) => refused(world, world.card(), { rule: 7, amount: world.draw.amount(2, 8) })),
  topUpCase("foreign", 2, (world) =>
    refused(world, world.card(world.stranger), { rule: 1, amount: world.draw.amount(10, 50) }),
  ),
  topUpCase("other-amount", 2, (world) => {
    const amount = world.draw.amount(10, 28);
    return topUp(world, amount, plainKnowledge(world), world.draw.amount(30, 50));
  }),
];

function topUpCase(name: string, level: 1 | 2, build: (world: World) => Parts): GoalCase {
  return { kind: "top_up", name, level, needsGold: false, build };
}

/** With `instead`, the user thinks of another amount when asked to confirm. */
function topUp(world: World, amount: number, knowledge: Knowledge, instead: number | null = null): Parts {
  const card = world.card();
  const wish = wishFor(world, card, { amount, knowledge });
  const final = instead ?? amount;
  return {
    agenda: {
      ...wish.agenda,
      secondThought:
        instead === null
          ? null
          : {
              words: [`Hm, make it $${instead}.`, `Wait, I feel generous. $${instead}!`],
              slots: [wish.reference.slot, amountSlot(instead)],
              confirmation: confirmationOf(wish.reference, instead),
            },
    },
    instruction:
      wish.instruction +
      (instead === null ? "" : ` When you are asked to confirm, change your mind: it shall be $${instead}.`),
    gold: [call("top_up_card", { card_id: card.id, amount: final })],
    facts: [amountFact(world, card.balance + final)],
    combination: `$${amount} > $${final}`,
  };
}

function refused(world: World, card: Card, why: { rule: number; amount: number }): Parts {
  const wish = wishFor(world, card, { amount: why.amount, knowledge: plainKnowledge(world) });
  const said = why.amount > 50 ? ["$50", "50 dollars"] : ["$10", "10 dollars"];
  return {
    agenda: { ...wish.agenda, objections: objectionsOf(world) },
    instruction: wish.instruction,
    gold: [call("decline", { id: card.id, rule: why.rule })],
    facts: why.rule === 1 ? [] : [reasonFact(world, { id: `${card.id} of`, rule: why.rule, said })],
    combination: `$${why.amount}`,
  };
}

type Wish = Pick<Goal, "agenda" | "instruction"> & { readonly reference: Reference };

function wishFor(world: World, card: Card, goal: { amount: number; knowledge: Knowledge }): Wish {
  const { amount, knowledge } = goal;
  const reference = cardReference(card, knowledge);
  const wishes = world.draw.chance(0.6)
    ? [`Please put $${amount} on ${reference.phrase}.`, `Can you top up ${reference.phrase} by $${amount}?`]
    : [`I want to top up ${reference.phrase}.`, `Please put some money on ${reference.phrase}.`];
  return {
    reference,
    agenda: {
      name: "top_up",
      requests: requestsOf(world, "top_up", wishes),
      slots: [reference.slot, amountSlot(amount)],
      confirmation: confirmationOf(reference, amount),
      secondThought: null,
      settledBy: ["has a balance", "balance is now", "new balance", "topped up", "been added", "have added"],
      objections: [],
    },
    instruction: `You want to put $${amount} on ${reference.prose}.`,
  };
}

function amountSlot(amount: number): AgendaSlot {
  return {
    name: "amount",
    askedBy: ["how much", "what amount", "which amount", "amount you", "how many dollars"],
    answers: [`$${amount}, please.`, `$${amount}.`],
  };
}

function confirmationOf(reference: Reference, amount: number): AgendaConfirmation {
  return {
    mustName: [reference.names, [`$${amount}`, `${amount} dollars`]],
    corrections: [`No, please put $${amount} on ${reference.exact}.`],
  };
}
