// "Send it elsewhere": only a pending order can be.

import type { AgendaConfirmation } from "../../../core/environment.ts";
import type { Order } from "../shop.ts";
import type { World } from "../world.ts";
import type { Goal, GoalCase } from "./goal.ts";
import {
  call,
  daysFact,
  type Knowledge,
  objectionsOf,
  orderReference,
  plainKnowledge,
  reasonFact,
  type Reference,
  requestsOf,
} from "./parts.ts";

type Parts = Omit<Goal, "kind" | "caseName">;

export const addressCases: readonly GoalCase[] = [
  addressCase("plain", 1, (world) => send(world, world.order({ status: "pending" }), plainKnowledge(world))),
  addressCase("lost", 2, (world) => send(world, world.order({ status: "pending" }), "lost")),
  addressCase("shipped", 2, (world) => refused(world, world.order({ status: "shipped" }), 4)),
  addressCase("foreign", 2, (world) => refused(world, world.order({ status: "pending", member: world.stranger }), 1)),
  addressCase("other-address", 2, (world) =>
    send(world, world.order({ status: "pending" }), plainKnowledge(world), world.address()),
  ),
];

function addressCase(name: string, level: 1 | 2, build: (world: World) => Parts): GoalCase {
  return { kind: "address", name, level, needsGold: false, build };
}

/** With `instead`, the user thinks of another address when asked to confirm. */
function send(world: World, order: Order, knowledge: Knowledge, instead: string | null = null): Parts {
  const wish = wishFor(world, order, knowledge);
  const address = instead ?? wish.address;
  return {
    agenda: {
      ...wish.agenda,
      secondThought:
        instead === null
          ? null
          : {
              words: [`Wait, no. Make it ${instead}.`, `On second thought, ${instead} is better.`],
              slots: [wish.reference.slot, addressSlot(instead)],
              confirmation: confirmationOf(wish.reference, instead),
            },
    },
    instruction:
      wish.instruction +
      (instead === null ? "" : ` When you are asked to confirm, change your mind: it shall go to ${instead}.`),
    gold: [call("change_address", { order_id: order.id, address })],
    facts: [daysFact(world, order.days + 1)],
    combination: `${wish.address} > ${address}`,
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
    combination: wish.address,
  };
}

type Wish = Pick<Goal, "agenda" | "instruction"> & { readonly reference: Reference; readonly address: string };

function wishFor(world: World, order: Order, knowledge: Knowledge): Wish {
  const reference = orderReference(world, order, knowledge);
  const address = world.address();
  const wishes = world.draw.chance(0.5)
    ? [`Please send ${reference.phrase} to ${address}.`, `Can ${reference.phrase} go to ${address}?`]
    : [`I need a new address on ${reference.phrase}.`, `Please change the address of ${reference.phrase}.`];
  return {
    reference,
    address,
    agenda: {
      name: "address",
      requests: requestsOf(world, "address", wishes),
      slots: [reference.slot, addressSlot(address)],
      confirmation: confirmationOf(reference, address),
      secondThought: null,
      settledBy: ["goes to", "go to", "sent to", "been changed", "have changed", "is changed", "updated"],
      objections: [],
    },
    instruction: `You want ${reference.prose} to be sent to ${address}.`,
  };
}

function addressSlot(address: string): Goal["agenda"]["slots"][number] {
  return {
    name: "address",
    askedBy: ["address", "where send", "where go"],
    answers: [`${address}.`, `To ${address}.`],
  };
}

function confirmationOf(reference: Reference, address: string): AgendaConfirmation {
  return {
    mustName: [reference.names, [address]],
    corrections: [`No, ${reference.exact} shall go to ${address}.`],
  };
}
