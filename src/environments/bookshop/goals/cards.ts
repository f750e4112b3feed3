// "Put money on my gift card": within the limits, and only on the member's own card. And wishes for
// which the desk has no tool: they go to the owner, which ends the chat, so such a wish is the
// second of two goals.

import type { Card } from "../shop.ts";
import { nearMisses, ownerTimes, ownerWishes } from "../words.ts";
import type { World } from "../world.ts";
import {
  type Aim,
  amountFact,
  call,
  cardReference,
  forbidden,
  goalCase,
  type GoalCase,
  type GoalParts,
  granted,
  type Knowledge,
  noAim,
  orderReference,
  plainKnowledge,
  type Reference,
  type Wish,
  wishOf,
} from "./goal.ts";

export const topUpCases: readonly GoalCase[] = [
  goalCase("top_up", "plain", 1, (world) => topUp(world, world.draw.amount(10, 50), plainKnowledge(world))),
  goalCase("top_up", "lost", 2, (world) => topUp(world, world.draw.amount(10, 50), "lost")),
  goalCase("top_up", "too-much", 2, (world) => noTopUp(world, world.card(), 7, world.draw.amount(55, 95))),
  goalCase("top_up", "too-little", 2, (world) => noTopUp(world, world.card(), 7, world.draw.amount(2, 8))),
  goalCase("top_up", "foreign", 2, (world) => noTopUp(world, world.card(world.stranger), 1, world.draw.amount(10, 50))),
  goalCase("top_up", "other-amount", 2, (world) => {
    const amount = world.draw.amount(10, 28);
    return topUp(world, amount, plainKnowledge(world), world.draw.amount(30, 50));
  }),
];

/** A top-up of `amount`. If `instead` is given, the user chooses that amount when asked to confirm. */
function topUp(world: World, amount: number, knowledge: Knowledge, instead: number | null = null): GoalParts {
  const card = world.card();
  const reference = cardReference(card, knowledge);
  const final = instead ?? amount;
  return granted(topUpWish(world, reference, amount), {
    gold: call("top_up_card", { card_id: card.id, amount: final }),
    fact: amountFact(world, card.balance + final),
    combination: `$${amount} > $${final}`,
    change:
      instead === null
        ? null
        : {
            words: [`Hm, make it $${instead}.`, `Wait, I feel generous. $${instead}!`],
            ...topUpAim(reference, instead),
            instruction: `it shall be $${instead}.`,
          },
  });
}

function noTopUp(world: World, card: Card, rule: number, amount: number): GoalParts {
  const wish = topUpWish(world, cardReference(card, plainKnowledge(world)), amount);
  const said = amount > 50 ? ["$50", "50 dollars"] : ["$10", "10 dollars"];
  return forbidden(world, wish, { id: card.id, rule, said, combination: `$${amount}` });
}

function topUpWish(world: World, reference: Reference, amount: number): Wish {
  const { phrase } = reference;
  const requests = world.draw.chance(0.6)
    ? [`Please put $${amount} on ${phrase}.`, `Can you top up ${phrase} by $${amount}?`]
    : [`I want to top up ${phrase}.`, `Please put some money on ${phrase}.`];
  return wishOf(world, "top_up", {
    requests,
    ...topUpAim(reference, amount),
    settledBy: ["has a balance", "balance is now", "new balance", "topped up", "been added", "have added"],
    instruction: `You want to put $${amount} on ${reference.prose}.`,
  });
}

function topUpAim(reference: Reference, amount: number): Aim {
  const phrases = ["how much", "what amount", "which amount", "amount you", "how many dollars"];
  return {
    slots: [reference.slot, { name: "amount", phrases: phrases, answers: [`$${amount}, please.`, `$${amount}.`] }],
    confirmation: {
      mustName: [reference.names, [`$${amount}`, `${amount} dollars`]],
      corrections: [`No, please put $${amount} on ${reference.exact}.`],
    },
  };
}

export const ownerCases: readonly GoalCase[] = [
  goalCase("owner", "plain", 1, (world) => {
    const [wish, time] = world.draw.pair(ownerWishes, ownerTimes);
    return forOwner(world, `${wish} ${time}`, [`I would like to ${wish} ${time}.`, `May I ${wish} ${time}?`]);
  }),
  goalCase("owner", "near-miss", 2, (world) => {
    const [wish, time] = world.draw.pair(nearMisses, ownerTimes);
    const order = world.order({ status: world.draw.pick(["pending", "shipped"]) });
    const { phrase } = orderReference(world, order, "given");
    return forOwner(world, `${wish} ${time}`, [
      `Can you ${wish} ${phrase} ${time}?`,
      `Please ${wish} ${phrase} ${time}.`,
    ]);
  }),
];

function forOwner(world: World, combination: string, requests: readonly string[]): GoalParts {
  const wish = wishOf(world, "owner", {
    requests,
    ...noAim,
    settledBy: ["owner", "colleague", "hand", "pass", "forward", "transfer"],
    instruction: `You say: "${requests[0]}" You accept whatever you are told.`,
  });
  return { ...wish, gold: [call("hand_over", { member_id: world.member.id })], facts: [], combination };
}
