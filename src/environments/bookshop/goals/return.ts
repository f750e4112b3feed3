// "Take it back": delivered, in time, unsigned. Gold members have twice the time, which the desk has to look up.

import type { AgendaSlot } from "../../../core/environment.ts";
import type { Edition, Order } from "../shop.ts";
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
  type Reference,
  requestsOf,
} from "./parts.ts";

type Parts = Omit<Goal, "kind" | "caseName">;

export const returnCases: readonly GoalCase[] = [
  returnCase("plain", 1, (world) => takeBack(world, world.order({ status: "delivered" }), plainKnowledge(world))),
  returnCase("one-of-two", 1, (world) =>
    takeBack(world, world.order({ status: "delivered", books: 2 }), plainKnowledge(world)),
  ),
  returnCase("lost", 2, (world) => takeBack(world, world.order({ status: "delivered" }), "lost")),
  {
    ...returnCase("late-but-gold", 2, (world) =>
      takeBack(world, world.order({ status: "delivered", days: world.draw.between(33, 58) }), plainKnowledge(world)),
    ),
    needsGold: true,
  },
  returnCase("late", 2, (world) => {
    const [low, high] = world.member.tier === "gold" ? [63, 90] : [33, 90];
    const order = world.order({ status: "delivered", days: world.draw.between(low, high) });
    return refused(world, order, [`${order.days} days`, "30 days", "60 days", "too late"]);
  }),
  returnCase("signed", 2, (world) => refused(world, world.order({ status: "delivered", isSigned: true }), ["signed"])),
  returnCase("on-its-way", 2, (world) =>
    refused(world, world.order({ status: world.draw.pick(["pending", "shipped"]) }), [
      "pending",
      "shipped",
      "not delivered",
      "not been delivered",
      "not yet delivered",
      "delivered yet",
    ]),
  ),
  returnCase("other-book", 2, (world) =>
    takeBack(world, world.order({ status: "delivered", books: 2 }), plainKnowledge(world), true),
  ),
];

function returnCase(name: string, level: 1 | 2, build: (world: World) => Parts): GoalCase {
  return { kind: "return", name, level, needsGold: false, build };
}

/** With `changesMind`, the user thinks of the other book of the order when asked to confirm. */
function takeBack(world: World, order: Order, knowledge: Knowledge, changesMind = false): Parts {
  const [first, second] = order.books.map((book) => world.editionOf(book));
  const wish = wishFor(world, order, { book: first!, knowledge });
  const final = changesMind ? second! : first!;
  return {
    agenda: {
      ...wish.agenda,
      secondThought: changesMind
        ? {
            words: [`Wait, I keep that one. Take ${final.title}.`, `No, the other one. ${final.title}, please.`],
            slots: [wish.reference.slot, bookSlot(final)],
            confirmation: confirmationOf(wish.reference, final),
          }
        : null,
    },
    instruction:
      wish.instruction +
      (changesMind ? ` When you are asked to confirm, change your mind: you return "${final.title}" instead.` : ""),
    gold: [call("return_book", { order_id: order.id, book_id: final.id })],
    facts: [amountFact(world, final.price)],
    combination: `${first!.title} > ${final.title}`,
  };
}

function refused(world: World, order: Order, said: readonly string[]): Parts {
  const book = world.editionOf(order.books[0]!);
  const wish = wishFor(world, order, { book, knowledge: plainKnowledge(world) });
  return {
    agenda: { ...wish.agenda, objections: objectionsOf(world) },
    instruction: wish.instruction,
    gold: [call("decline", { id: order.id, rule: 6 })],
    facts: [reasonFact(world, { id: `${order.id} of`, rule: 6, said })],
    combination: book.title,
  };
}

type Wish = Pick<Goal, "agenda" | "instruction"> & { readonly reference: Reference };

function wishFor(world: World, order: Order, wanted: { book: Edition; knowledge: Knowledge }): Wish {
  const { book, knowledge } = wanted;
  const reference = orderReference(world, order, knowledge);
  const from = knowledge === "given" ? ` from ${reference.phrase}` : "";
  const thing = knowledge === "given" && world.draw.chance(0.4) ? "a book" : book.title;
  return {
    reference,
    agenda: {
      name: "return",
      requests: requestsOf(world, "return", [
        `I would like to return ${thing}${from}.`,
        `Please take back ${thing}${from}.`,
        `Can I give back ${thing}${from}?`,
      ]),
      slots: [reference.slot, bookSlot(book)],
      confirmation: confirmationOf(reference, book),
      secondThought: null,
      settledBy: [
        "comes back",
        "taken back",
        "been returned",
        "is returned",
        "have returned",
        "refund of",
        "been noted",
      ],
      objections: [],
    },
    instruction: `You want to return "${book.title}" from ${reference.prose}.`,
  };
}

function bookSlot(book: Edition): AgendaSlot {
  const askedBy = ["which book", "what book", "which title", "which item", "book id", "title"];
  return { name: "book", askedBy, answers: [`${book.title}.`, `It is ${book.title}.`] };
}

function confirmationOf(reference: Reference, book: Edition): Goal["agenda"]["confirmation"] & object {
  return {
    mustName: [[book.title, book.id]],
    corrections: [`No, it is ${book.title} from ${reference.exact} that I want to return.`],
  };
}
