// "Cancel my order" and "send it elsewhere": both need a pending order.

import type { Order } from "../shop.ts";
import type { World } from "../world.ts";
import {
  type Aim,
  amountFact,
  call,
  daysFact,
  forbidden,
  goalCase,
  type GoalCase,
  type GoalParts,
  granted,
  type Knowledge,
  orderReference,
  plainKnowledge,
  type Reference,
  type Wish,
  wishOf,
} from "./goal.ts";

export const cancelCases: readonly GoalCase[] = [
  goalCase("cancel", "plain", 1, (world) => cancel(world, world.order({ status: "pending" }), plainKnowledge(world))),
  goalCase("cancel", "two-books", 1, (world) =>
    cancel(world, world.order({ status: "pending", books: 2 }), plainKnowledge(world)),
  ),
  goalCase("cancel", "lost", 2, (world) => cancel(world, world.order({ status: "pending" }), "lost")),
  goalCase("cancel", "shipped", 2, (world) => noCancel(world, world.order({ status: "shipped" }), 4)),
  goalCase("cancel", "delivered", 2, (world) => noCancel(world, world.order({ status: "delivered" }), 4)),
  goalCase("cancel", "foreign", 2, (world) =>
    noCancel(world, world.order({ status: "pending", member: world.stranger }), 1),
  ),
  goalCase("cancel", "other-order", 2, (world) => {
    const first = world.order({ status: "pending" });
    return cancel(world, first, "given", world.order({ status: "pending" }));
  }),
];

/** A cancellation. If `instead` is given, the user chooses that order when asked to confirm. */
function cancel(world: World, order: Order, knowledge: Knowledge, instead: Order | null = null): GoalParts {
  const wish = cancelWish(world, orderReference(world, order, knowledge));
  const final = instead ?? order;
  const other = instead && orderReference(world, instead, "given");
  return granted(wish, {
    gold: call("cancel_order", { order_id: final.id }),
    fact: amountFact(world, world.totalOf(final)),
    combination: [world.titlesOf(order), world.titlesOf(final)].join(" > "),
    change: other && {
      words: [
        `Wait, not that one. Cancel ${other.exact} instead.`,
        `No, I take that back: it is ${other.exact} that must go.`,
      ],
      slots: [other.slot],
      confirmation: { mustName: [other.names], corrections: [`No, please cancel ${other.exact}.`] },
      instruction: `keep it and cancel ${other.prose} instead.`,
    },
  });
}

function noCancel(world: World, order: Order, rule: number): GoalParts {
  const combination = world.titlesOf(order).join();
  const wish = cancelWish(world, orderReference(world, order, plainKnowledge(world)));
  return forbidden(world, wish, { id: order.id, rule, said: notPending(order), combination });
}

const notPending = (order: Order): readonly string[] => [
  order.status,
  "not pending",
  "no longer pending",
  "on its way",
];

function cancelWish(world: World, { phrase, exact, names, slot, prose }: Reference): Wish {
  return wishOf(world, "cancel", {
    requests: [`I would like to cancel ${phrase}.`, `Please cancel ${phrase}.`, `Can you cancel ${phrase} for me?`],
    slots: [slot],
    confirmation: { mustName: [names], corrections: [`No, I want to cancel ${exact}.`] },
    settledBy: ["is cancelled", "been cancelled", "have cancelled", "is canceled", "been canceled", "have canceled"],
    instruction: `You want to cancel ${prose}.`,
  });
}

export const addressCases: readonly GoalCase[] = [
  goalCase("address", "plain", 1, (world) => send(world, world.order({ status: "pending" }), plainKnowledge(world))),
  goalCase("address", "lost", 2, (world) => send(world, world.order({ status: "pending" }), "lost")),
  goalCase("address", "shipped", 2, (world) => noSend(world, world.order({ status: "shipped" }), 4)),
  goalCase("address", "foreign", 2, (world) =>
    noSend(world, world.order({ status: "pending", member: world.stranger }), 1),
  ),
  goalCase("address", "other-address", 2, (world) =>
    send(world, world.order({ status: "pending" }), plainKnowledge(world), world.address()),
  ),
];

/** A change of address. If `instead` is given, the user chooses that address when asked to confirm. */
function send(world: World, order: Order, knowledge: Knowledge, instead: string | null = null): GoalParts {
  const { wish, reference, address } = addressWish(world, order, knowledge);
  const final = instead ?? address;
  return granted(wish, {
    gold: call("change_address", { order_id: order.id, address: final }),
    fact: daysFact(world, order.days + 1),
    combination: `${address} > ${final}`,
    change:
      instead === null
        ? null
        : {
            words: [`Wait, no. Make it ${instead}.`, `On second thought, ${instead} is better.`],
            ...addressAim(reference, instead),
            instruction: `it shall go to ${instead}.`,
          },
  });
}

function noSend(world: World, order: Order, rule: number): GoalParts {
  const { wish, address } = addressWish(world, order, plainKnowledge(world));
  return forbidden(world, wish, { id: order.id, rule, said: notPending(order), combination: address });
}

function addressWish(
  world: World,
  order: Order,
  knowledge: Knowledge,
): { readonly wish: Wish; readonly reference: Reference; readonly address: string } {
  const reference = orderReference(world, order, knowledge);
  const { phrase, prose } = reference;
  const address = world.address();
  const requests = world.draw.chance(0.5)
    ? [`Please send ${phrase} to ${address}.`, `Can ${phrase} go to ${address}?`]
    : [`I need a new address on ${phrase}.`, `Please change the address of ${phrase}.`];
  const wish = wishOf(world, "address", {
    requests,
    ...addressAim(reference, address),
    settledBy: ["goes to", "go to", "sent to", "been changed", "have changed", "is changed", "updated"],
    instruction: `You want ${prose} to be sent to ${address}.`,
  });
  return { wish, reference, address };
}

function addressAim(reference: Reference, address: string): Aim {
  const phrases = ["address", "where send", "where go"];
  return {
    slots: [reference.slot, { name: "address", phrases: phrases, answers: [`${address}.`, `To ${address}.`] }],
    confirmation: {
      mustName: [reference.names, [address]],
      corrections: [`No, ${reference.exact} shall go to ${address}.`],
    },
  };
}
