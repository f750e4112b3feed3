// "Cancel my order" and "send it elsewhere": only a pending order can be.

import type { AgendaConfirmation, AgendaSlot } from "../../../core/environment.ts";
import type { Order } from "../shop.ts";
import type { World } from "../world.ts";
import {
  agendaOf,
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
  requestsOf,
  type Wish,
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

/** With `instead`, the user changes its mind when asked to confirm. */
function cancel(world: World, order: Order, knowledge: Knowledge, instead: Order | null = null): GoalParts {
  const wish = cancelWish(world, order, knowledge);
  const final = instead ?? order;
  const other = instead === null ? null : orderReference(world, instead, "given");
  return granted(wish, {
    gold: call("cancel_order", { order_id: final.id }),
    fact: amountFact(world, world.totalOf(final)),
    combination: [world.titlesOf(order), world.titlesOf(final)].join(" > "),
    change: other && {
      to: {
        words: [
          `Wait, not that one. Cancel ${other.exact} instead.`,
          `No, I take that back: it is ${other.exact} that must go.`,
        ],
        slots: [other.slot],
        confirmation: { mustName: [other.names], corrections: [`No, please cancel ${other.exact}.`] },
      },
      instruction: `keep it and cancel ${other.prose} instead.`,
    },
  });
}

function noCancel(world: World, order: Order, rule: number): GoalParts {
  const combination = world.titlesOf(order).join();
  const wish = cancelWish(world, order, plainKnowledge(world));
  return forbidden(world, wish, { id: order.id, rule, said: notPending(order), combination });
}

const notPending = (order: Order): readonly string[] => [
  order.status,
  "not pending",
  "no longer pending",
  "on its way",
];

function cancelWish(world: World, order: Order, knowledge: Knowledge): Wish {
  const reference = orderReference(world, order, knowledge);
  const requests = requestsOf(world, "cancel", [
    `I would like to cancel ${reference.phrase}.`,
    `Please cancel ${reference.phrase}.`,
    `Can you cancel ${reference.phrase} for me?`,
  ]);
  const agenda = agendaOf("cancel", requests, {
    slots: [reference.slot],
    confirmation: { mustName: [reference.names], corrections: [`No, I want to cancel ${reference.exact}.`] },
    settledBy: ["is cancelled", "been cancelled", "have cancelled", "is canceled", "been canceled", "have canceled"],
  });
  return { agenda, instruction: `You want to cancel ${reference.prose}.` };
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

/** With `instead`, the user thinks of another address when asked to confirm. */
function send(world: World, order: Order, knowledge: Knowledge, instead: string | null = null): GoalParts {
  const wish = addressWish(world, order, knowledge);
  const address = instead ?? wish.address;
  return granted(wish, {
    gold: call("change_address", { order_id: order.id, address }),
    fact: daysFact(world, order.days + 1),
    combination: `${wish.address} > ${address}`,
    change:
      instead === null
        ? null
        : {
            to: {
              words: [`Wait, no. Make it ${instead}.`, `On second thought, ${instead} is better.`],
              slots: [wish.reference.slot, addressSlot(instead)],
              confirmation: addressConfirmation(wish.reference, instead),
            },
            instruction: `it shall go to ${instead}.`,
          },
  });
}

function noSend(world: World, order: Order, rule: number): GoalParts {
  const wish = addressWish(world, order, plainKnowledge(world));
  return forbidden(world, wish, { id: order.id, rule, said: notPending(order), combination: wish.address });
}

function addressWish(
  world: World,
  order: Order,
  knowledge: Knowledge,
): Wish & { readonly reference: Reference; readonly address: string } {
  const reference = orderReference(world, order, knowledge);
  const address = world.address();
  const wishes = world.draw.chance(0.5)
    ? [`Please send ${reference.phrase} to ${address}.`, `Can ${reference.phrase} go to ${address}?`]
    : [`I need a new address on ${reference.phrase}.`, `Please change the address of ${reference.phrase}.`];
  const agenda = agendaOf("address", requestsOf(world, "address", wishes), {
    slots: [reference.slot, addressSlot(address)],
    confirmation: addressConfirmation(reference, address),
    settledBy: ["goes to", "go to", "sent to", "been changed", "have changed", "is changed", "updated"],
  });
  return { reference, address, agenda, instruction: `You want ${reference.prose} to be sent to ${address}.` };
}

function addressSlot(address: string): AgendaSlot {
  return {
    name: "address",
    askedBy: ["address", "where send", "where go"],
    answers: [`${address}.`, `To ${address}.`],
  };
}

function addressConfirmation(reference: Reference, address: string): AgendaConfirmation {
  return {
    mustName: [reference.names, [address]],
    corrections: [`No, ${reference.exact} shall go to ${address}.`],
  };
}
