// "Take it back": delivered, in time, unsigned; gold members have twice the time, which the desk
// has to look up. And "another edition, please": same title, in stock, and the order is still
// pending.

import { type Edition, type Format, formats, type Order, type OrderStatus } from "../shop.ts";
import type { World } from "../world.ts";
import {
  type Aim,
  amountFact,
  call,
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

export const returnCases: readonly GoalCase[] = [
  goalCase("return", "plain", 1, (world) =>
    takeBack(world, world.order({ status: "delivered" }), plainKnowledge(world)),
  ),
  goalCase("return", "one-of-two", 1, (world) =>
    takeBack(world, world.order({ status: "delivered", books: 2 }), plainKnowledge(world)),
  ),
  goalCase("return", "lost", 2, (world) => takeBack(world, world.order({ status: "delivered" }), "lost")),
  {
    ...goalCase("return", "late-but-gold", 2, (world) =>
      takeBack(world, world.order({ status: "delivered", days: world.draw.between(33, 58) }), plainKnowledge(world)),
    ),
    needsGold: true,
  },
  goalCase("return", "late", 2, (world) => {
    const [low, high] = world.member.tier === "gold" ? [63, 90] : [33, 90];
    const order = world.order({ status: "delivered", days: world.draw.between(low, high) });
    return noReturn(world, order, [`${order.days} days`, "30 days", "60 days", "too late"]);
  }),
  goalCase("return", "signed", 2, (world) =>
    noReturn(world, world.order({ status: "delivered", isSigned: true }), ["signed"]),
  ),
  goalCase("return", "on-its-way", 2, (world) =>
    noReturn(world, world.order({ status: world.draw.pick(["pending", "shipped"]) }), [
      "pending",
      "shipped",
      "not delivered",
      "not been delivered",
      "not yet delivered",
      "delivered yet",
    ]),
  ),
  goalCase("return", "other-book", 2, (world) =>
    takeBack(world, world.order({ status: "delivered", books: 2 }), plainKnowledge(world), true),
  ),
];

/**
 * The return of a book. If `changesMind`, the user chooses the order's other book when asked to
 * confirm.
 */
function takeBack(world: World, order: Order, knowledge: Knowledge, changesMind = false): GoalParts {
  // Shuffled: the position in the order must not reveal which book it is about.
  const [first, second] = world.draw.shuffle(order.books.map((book) => world.editionOf(book)));
  const { wish, reference } = returnWish(world, order, first!, knowledge);
  const final = changesMind ? second! : first!;
  return granted(wish, {
    gold: call("return_book", { order_id: order.id, book_id: final.id }),
    fact: amountFact(world, final.price),
    combination: `${first!.title} > ${final.title}`,
    change: !changesMind
      ? null
      : {
          words: [`Wait, I keep that one. Take ${final.title}.`, `No, the other one. ${final.title}, please.`],
          ...returnAim(reference, final),
          instruction: `you return "${final.title}" instead.`,
        },
  });
}

function noReturn(world: World, order: Order, said: readonly string[]): GoalParts {
  const book = world.editionOf(order.books[0]!);
  const { wish } = returnWish(world, order, book, plainKnowledge(world));
  return forbidden(world, wish, { id: order.id, rule: 6, said, combination: book.title });
}

type ReferringWish = { readonly wish: Wish; readonly reference: Reference };

function returnWish(world: World, order: Order, book: Edition, knowledge: Knowledge): ReferringWish {
  const reference = orderReference(world, order, knowledge);
  const from = knowledge === "given" ? ` from ${reference.phrase}` : "";
  const thing = knowledge === "given" && world.draw.chance(0.4) ? "a book" : book.title;
  const wish = wishOf(world, "return", {
    requests: [
      `I would like to return ${thing}${from}.`,
      `Please take back ${thing}${from}.`,
      `Can I give back ${thing}${from}?`,
    ],
    ...returnAim(reference, book),
    settledBy: ["comes back", "taken back", "been returned", "is returned", "have returned", "refund of", "been noted"],
    instruction: `You want to return "${book.title}" from ${reference.prose}.`,
  });
  return { wish, reference };
}

function returnAim(reference: Reference, { id, title }: Edition): Aim {
  const phrases = ["which book", "what book", "which title", "which item", "book id", "title"];
  return {
    slots: [reference.slot, { name: "book", phrases: phrases, answers: [`${title}.`, `It is ${title}.`] }],
    confirmation: {
      mustName: [[title, id]],
      corrections: [`No, it is ${title} from ${reference.exact} that I want to return.`],
    },
  };
}

export const swapCases: readonly GoalCase[] = [
  goalCase("swap", "plain", 1, (world) => swap(world, shelfOf(world, {}), plainKnowledge(world))),
  goalCase("swap", "lost", 2, (world) => swap(world, shelfOf(world, {}), "lost")),
  goalCase("swap", "sold-out", 2, (world) => {
    const said = ["sold out", "out of stock", "not in stock", "no stock"];
    return noSwap(world, shelfOf(world, { isInStock: false }), { rule: 5, said });
  }),
  goalCase("swap", "shipped", 2, (world) => {
    const said = ["shipped", "not pending", "no longer pending", "on its way"];
    return noSwap(world, shelfOf(world, { status: "shipped" }), { rule: 4, said });
  }),
  goalCase("swap", "other-format", 2, (world) => swap(world, shelfOf(world, {}), plainKnowledge(world), true)),
];

type Shelf = { readonly order: Order; readonly has: Edition; readonly wants: Edition; readonly third: Edition };

/** An order of one book whose title is available in all formats. */
function shelfOf(world: World, wish: { isInStock?: boolean; status?: OrderStatus }): Shelf {
  const title = world.title();
  const [had, wanted, other] = world.draw.shuffle(formats);
  const has = world.edition(title, had!);
  const wants = world.edition(title, wanted!, wish.isInStock);
  const third = world.edition(title, other!);
  const books = [{ edition: has.id, isSigned: false, isReturned: false }];
  return { order: world.orderOf(books, { status: wish.status ?? "pending" }), has, wants, third };
}

/** The swap of an edition. If `changesMind`, the user wants the third format when asked to confirm. */
function swap(world: World, shelf: Shelf, knowledge: Knowledge, changesMind = false): GoalParts {
  const { order, has, wants, third } = shelf;
  const { wish, reference } = swapWish(world, shelf, knowledge);
  const final = changesMind ? third : wants;
  const format = spoken(final.format);
  return granted(wish, {
    gold: call("swap_book", { order_id: order.id, book_id: has.id, new_book_id: final.id }),
    fact: amountFact(world, Math.abs(final.price - has.price)),
    combination: `${has.title} ${has.format} > ${wants.format} > ${final.format}`,
    change: !changesMind
      ? null
      : {
          words: [`Wait. ${capital(format)}, if you have it.`, `No, ${format} after all.`],
          ...swapAim(reference, final),
          instruction: `you want ${format}.`,
        },
  });
}

function noSwap(world: World, shelf: Shelf, why: { rule: number; said: readonly string[] }): GoalParts {
  const { order, wants } = shelf;
  const { wish } = swapWish(world, shelf, plainKnowledge(world));
  const combination = `${wants.title} ${wants.format}`;
  // If the stock is the reason, the book has to be looked up; its line names the edition's format
  // and id.
  const source = why.rule === 5 ? wants.id : `${order.id} of`;
  return forbidden(world, wish, { id: order.id, ...why, source, combination });
}

function swapWish(world: World, { order, wants }: Shelf, knowledge: Knowledge): ReferringWish {
  const reference = orderReference(world, order, knowledge);
  const where = knowledge === "given" ? ` in ${reference.phrase}` : "";
  const { title } = wants;
  const format = spoken(wants.format);
  const requests = world.draw.chance(0.6)
    ? [`Can I have ${title}${where} as ${format} instead?`, `Please swap ${title}${where} for ${format}.`]
    : [`Please swap ${title}${where} for another edition.`, `I need another edition of ${title}${where}.`];
  const wish = wishOf(world, "swap", {
    requests,
    ...swapAim(reference, wants),
    settledBy: ["now holds", "been swapped", "have swapped", "is swapped", "been changed", "updated", "exchanged"],
    instruction: `You want "${title}" in ${reference.prose} as ${format} instead.`,
  });
  return { wish, reference };
}

function swapAim(reference: Reference, wants: Edition): Aim {
  const phrases = ["which edition", "what edition", "which format", "what format", "which version", "new book"];
  const format = spoken(wants.format);
  return {
    slots: [
      reference.slot,
      { name: "edition", phrases: phrases, answers: [`${capital(format)}, please.`, `I would like ${format}.`] },
    ],
    confirmation: {
      mustName: [[wants.format, wants.id, ...(wants.format === "audio" ? ["audiobook"] : [])]],
      corrections: [`No, in ${reference.exact} I want ${format}.`],
    },
  };
}

export const spoken = (format: Format): string => (format === "audio" ? "an audio book" : `a ${format}`);

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
