// "Cancel my order": only a pending one can be.

import type { Order } from "../shop.ts";
import type { World } from "../world.ts";
import type { Goal, GoalCase } from "./goal.ts";
import {
  amountFact,
  call,
  type Knowledge,
  objectionsOf,
  orderReference,
  plainKnowledge,
  reasonFact,
  requestsOf,
} from "./parts.ts";

type Parts = Omit<Goal, "kind" | "caseName">;

export const cancelCases: readonly GoalCase[] = [
  cancelCase("plain", 1, (world) => cancel(world, world.order({ status: "pending" }), plainKnowledge(world))),
  cancelCase("two-books", 1, (world) =>
    cancel(world, world.order({ status: "pending", books: 2 }), plainKnowledge(world)),
  ),
  cancelCase("lost", 2, (world) => cancel(world, world.order({ status: "pending" }), "lost")),
  cancelCase("shipped", 2, (world) => refused(world, world.order({ status: "shipped" }), 4)),
  cancelCase("delivered", 2, (world) => refused(world, world.order({ status: "delivered" }), 4)),
  cancelCase("foreign", 2, (world) => refused(world, world.order({ status: "pending", member: world.stranger }), 1)),
  cancelCase("other-order", 2, (world) => {
    const first = world.order({ status: "pending" });
    return cancel(world, first, "given", world.order({ status: "pending" }));
  }),
];

function cancelCase(name: string, level: 1 | 2, build: (world: World) => Parts): GoalCase {
  return { kind: "cancel", name, level, needsGold: false, build };
}

/** With `instead`, the user changes its mind when asked to confirm. */
function cancel(world: World, order: Order, knowledge: Knowledge, instead: Order | null = null): Parts {
  const wish = wishFor(world, order, knowledge);
  const final = instead ?? order;
  const other = instead === null ? null : orderReference(world, instead, "given");
  return {
    agenda: {
      ...wish.agenda,
      secondThought:
        other === null
          ? null
          : {
              words: [
                `Wait, not that one. Cancel ${other.exact} instead.`,
                `No, I take that back: it is ${other.exact} that must go.`,
              ],
              slots: [other.slot],
              confirmation: { mustName: [other.names], corrections: [`No, please cancel ${other.exact}.`] },
            },
    },
    instruction:
      wish.instruction +
      (other === null
        ? ""
        : ` When you are asked to confirm, change your mind: keep it and cancel ${other.prose} instead.`),
    gold: [call("cancel_order", { order_id: final.id })],
    facts: [amountFact(world, totalOf(world, final))],
    combination: [world.titlesOf(order), world.titlesOf(final)].join(" > "),
  };
}

function refused(world: World, order: Order, rule: number): Parts {
  const wish = wishFor(world, order, plainKnowledge(world));
  const said = [order.status, "not pending", "no longer pending", "on its way"];
  return {
    agenda: { ...wish.agenda, objections: objectionsOf(world) },
    instruction: wish.instruction,
    gold: [call("decline", { id: order.id, rule })],
    facts: rule === 1 ? [] : [reasonFact(world, { id: `${order.id} of`, rule, said })],
    combination: world.titlesOf(order).join(),
  };
}

function wishFor(world: World, order: Order, knowledge: Knowledge): Pick<Goal, "agenda" | "instruction"> {
  const reference = orderReference(world, order, knowledge);
  return {
    agenda: {
      name: "cancel",
      requests: requestsOf(world, "cancel", [
        `I would like to cancel ${reference.phrase}.`,
        `Please cancel ${reference.phrase}.`,
        `Can you cancel ${reference.phrase} for me?`,
      ]),
      slots: [reference.slot],
      confirmation: { mustName: [reference.names], corrections: [`No, I want to cancel ${reference.exact}.`] },
      secondThought: null,
      settledBy: ["is cancelled", "been cancelled", "have cancelled", "is canceled", "been canceled", "have canceled"],
      objections: [],
    },
    instruction: `You want to cancel ${reference.prose}.`,
  };
}

function totalOf(world: World, order: Order): number {
  return order.books.reduce((sum, book) => sum + world.editionOf(book).price, 0);
}
