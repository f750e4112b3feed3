// "Another edition, please": same title, in stock, and the order still pending.

import type { AgendaConfirmation, AgendaSlot } from "../../../core/environment.ts";
import type { Edition, Format, Order, OrderStatus } from "../shop.ts";
import { formats } from "../shop.ts";
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

export const swapCases: readonly GoalCase[] = [
  swapCase("plain", 1, (world) => swap(world, shelf(world, {}), plainKnowledge(world))),
  swapCase("lost", 2, (world) => swap(world, shelf(world, {}), "lost")),
  swapCase("sold-out", 2, (world) => {
    const said = ["sold out", "out of stock", "not in stock", "no stock"];
    return refused(world, shelf(world, { isInStock: false }), { rule: 5, said });
  }),
  swapCase("shipped", 2, (world) => {
    const said = ["shipped", "not pending", "no longer pending", "on its way"];
    return refused(world, shelf(world, { status: "shipped" }), { rule: 4, said });
  }),
  swapCase("other-format", 2, (world) => swap(world, shelf(world, {}), plainKnowledge(world), true)),
];

function swapCase(name: string, level: 1 | 2, build: (world: World) => Parts): GoalCase {
  return { kind: "swap", name, level, needsGold: false, build };
}

type Shelf = { readonly order: Order; readonly has: Edition; readonly wants: Edition; readonly third: Edition };

/** An order of one book whose title comes in all formats. */
function shelf(world: World, wish: { isInStock?: boolean; status?: OrderStatus }): Shelf {
  const title = world.title();
  const [had, wanted, other] = world.draw.shuffle(formats);
  const isInStock = wish.isInStock ?? true;
  const has = world.edition(title, had!);
  const wants = world.edition(title, wanted!, { isInStock });
  const third = world.edition(title, other!);
  const books = [{ edition: has.id, isSigned: false, isReturned: false }];
  return { order: world.orderOf(books, { status: wish.status ?? "pending" }), has, wants, third };
}

/** With `changesMind`, the user wants the third format when asked to confirm. */
function swap(world: World, { order, has, wants, third }: Shelf, knowledge: Knowledge, changesMind = false): Parts {
  const wish = wishFor(world, { order, wants, knowledge });
  const final = changesMind ? third : wants;
  return {
    agenda: {
      ...wish.agenda,
      secondThought: changesMind
        ? {
            words: [
              `Wait. ${capital(spoken(final.format))}, if you have it.`,
              `No, ${spoken(final.format)} after all.`,
            ],
            slots: [wish.reference.slot, formatSlot(final)],
            confirmation: confirmationOf(wish.reference, final),
          }
        : null,
    },
    instruction:
      wish.instruction +
      (changesMind ? ` When you are asked to confirm, change your mind: you want ${spoken(final.format)}.` : ""),
    gold: [call("swap_book", { order_id: order.id, book_id: has.id, new_book_id: final.id })],
    facts: [amountFact(world, Math.abs(final.price - has.price))],
    combination: `${has.title} ${has.format} > ${wants.format} > ${final.format}`,
  };
}

function refused(world: World, { order, wants }: Shelf, why: { rule: number; said: readonly string[] }): Parts {
  const wish = wishFor(world, { order, wants, knowledge: plainKnowledge(world) });
  // Where the stock is the reason, the book has to be looked up; its line names the edition's format and id.
  const id = why.rule === 5 ? wants.id : `${order.id} of`;
  return {
    agenda: { ...wish.agenda, objections: objectionsOf(world) },
    instruction: wish.instruction,
    gold: [call("decline", { id: order.id, rule: why.rule })],
    facts: [reasonFact(world, { id, ...why })],
    combination: `${wants.title} ${wants.format}`,
  };
}

type Wish = Pick<Goal, "agenda" | "instruction"> & { readonly reference: Reference };

function wishFor(world: World, goal: { order: Order; wants: Edition; knowledge: Knowledge }): Wish {
  const { order, wants, knowledge } = goal;
  const reference = orderReference(world, order, knowledge);
  const where = knowledge === "given" ? ` in ${reference.phrase}` : "";
  const wishes = world.draw.chance(0.6)
    ? [
        `Can I have ${wants.title}${where} as ${spoken(wants.format)} instead?`,
        `Please swap ${wants.title}${where} for ${spoken(wants.format)}.`,
      ]
    : [`Please swap ${wants.title}${where} for another edition.`, `I need another edition of ${wants.title}${where}.`];
  return {
    reference,
    agenda: {
      name: "swap",
      requests: requestsOf(world, "swap", wishes),
      slots: [reference.slot, formatSlot(wants)],
      confirmation: confirmationOf(reference, wants),
      secondThought: null,
      settledBy: ["now holds", "been swapped", "have swapped", "is swapped", "been changed", "updated", "exchanged"],
      objections: [],
    },
    instruction: `You want "${wants.title}" in ${reference.prose} as ${spoken(wants.format)} instead.`,
  };
}

function formatSlot(wants: Edition): AgendaSlot {
  const askedBy = ["which edition", "what edition", "which format", "what format", "which version", "new book"];
  const format = spoken(wants.format);
  return { name: "edition", askedBy, answers: [`${capital(format)}, please.`, `I would like ${format}.`] };
}

function confirmationOf(reference: Reference, wants: Edition): AgendaConfirmation {
  return {
    mustName: [[wants.format, wants.id, ...(wants.format === "audio" ? ["audiobook"] : [])]],
    corrections: [`No, in ${reference.exact} I want ${spoken(wants.format)}.`],
  };
}

function spoken(format: Format): string {
  return format === "audio" ? "an audio book" : `a ${format}`;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
