// The till: reads a tool call as a change of the shop's data, with everything that the rules need
// to know about it. It checks that records exist and fit together, but not whether the desk may
// make the change. The rules that a change breaks are recorded as breaches, which are part of the
// state.

import type { EnvironmentCall } from "../../core/environment.ts";
import { mentions } from "../../lib/text.ts";
import type { JsonObject } from "../../python-semantics/json/value.ts";
import { type Edition, type Order, orderTotal, type Shop, textOf } from "./shop.ts";

/** A change that only involves existing records. */
export type Change = {
  readonly type: "change";
  /** Makes the change and returns the text that the till prints. */
  readonly apply: () => string;
  /** The rule from 4 to 7 that forbids it, or `null`. */
  readonly forbiddenBy: number | null;
  /** Id of the member who owns these records; `null` if ownership does not matter. */
  readonly member: string | null;
  /**
   * Records that must have been looked up. Each is the id with the text that follows it in the
   * record's own line.
   */
  readonly subjects: readonly string[];
  /**
   * Things that a proposal has to name, each as a list of alternative names; empty if no
   * confirmation is needed.
   */
  readonly thingsToConfirm: readonly (readonly string[])[];
  readonly endsEpisode: boolean;
};

export type ChangeError = { readonly type: "error"; readonly text: string };

type Result = Change | ChangeError;

/** Never throws on a policy's arguments. */
export function readChange(shop: Shop, call: EnvironmentCall): Result {
  const argument = (key: string): string => textOf(call.arguments, key);
  switch (call.name) {
    case "cancel_order":
      return withOrder(shop, argument("order_id"), (order) =>
        orderChange(shop, order, {
          next: { status: "cancelled" },
          prints: `${order.id} cancelled. Refund $${orderTotal(shop, order)}.`,
          forbiddenBy: order.status === "pending" ? null : 4,
        }),
      );
    case "change_address": {
      const address = argument("address").trim().replace(/\.$/, "");
      if (address === "" || address.length > 100) return failed("an address has 1 to 100 letters");
      return withOrder(shop, argument("order_id"), (order) => {
        // A new label costs a day, so that there is a new fact to tell the member.
        const days = order.days + 1;
        return orderChange(shop, order, {
          next: { address, days },
          prints: `${order.id} goes to ${address}, leaves in ${days} days.`,
          forbiddenBy: order.status === "pending" ? null : 4,
          names: [address],
        });
      });
    }
    case "return_book":
      return withBook(shop, call.arguments, (order, edition) => {
        const isIt = (book: Order["books"][number]): boolean => book.edition === edition.id;
        const limit = shop.members.get(order.member)?.tier === "gold" ? 60 : 30;
        const isSigned = order.books.some((book) => isIt(book) && book.isSigned);
        return orderChange(shop, order, {
          next: { books: order.books.map((book) => (isIt(book) ? { ...book, isReturned: true } : book)) },
          prints: `${edition.id} comes back. Refund $${edition.price}.`,
          forbiddenBy: order.status === "delivered" && order.days <= limit && !isSigned ? null : 6,
          names: [edition.id, edition.title],
        });
      });
    case "swap_book":
      return withBook(shop, call.arguments, (order, edition) => {
        const other = shop.editions.get(argument("new_book_id"));
        if (other === undefined) return missing("book", argument("new_book_id"));
        if (other.id === edition.id) return failed(`${edition.id} is that edition`);
        const difference = other.price - edition.price;
        const mayHave = other.isInStock && other.title === edition.title;
        return orderChange(shop, order, {
          next: {
            books: order.books.map((book) => (book.edition === edition.id ? { ...book, edition: other.id } : book)),
          },
          prints: `${order.id} now holds ${other.id}. ${difference < 0 ? "Refund" : "To pay"} $${Math.abs(difference)}.`,
          forbiddenBy: order.status !== "pending" ? 4 : mayHave ? null : 5,
          names: [other.id, other.format],
          lookedUp: [other.id],
        });
      });
    case "top_up_card": {
      const card = shop.cards.get(argument("card_id"));
      const amount = call.arguments.get("amount");
      if (card === undefined) return missing("card", argument("card_id"));
      if (typeof amount !== "number" || amount <= 0 || amount > 1000) {
        return failed("amount is whole dollars, 1 to 1000");
      }
      const balance = card.balance + amount;
      return changeOf({
        apply: () => {
          shop.cards.set(card.id, { ...card, balance });
          return `${card.id} has a balance of $${balance}.`;
        },
        forbiddenBy: amount >= 10 && amount <= 50 ? null : 7,
        member: card.member,
        subjects: [`${card.id} of`],
        thingsToConfirm: [[card.id], [`$${amount}`, `${amount} dollars`]],
      });
    }
    case "decline": {
      const record = shop.orders.get(argument("id")) ?? shop.cards.get(argument("id"));
      const rule = call.arguments.get("rule");
      if (record === undefined) return missing("order or card", argument("id"));
      if (typeof rule !== "number" || rule < 1 || rule > 10) return failed("rules go from 1 to 10");
      return changeOf({
        apply: () => {
          shop.declined.add(`${record.id} rule ${rule}`);
          return `Noted: ${record.id}, rule ${rule}.`;
        },
        subjects: [`${record.id} of`],
      });
    }
    case "hand_over": {
      const member = shop.members.get(argument("member_id"));
      if (member === undefined) return missing("member", argument("member_id"));
      return changeOf({
        apply: () => {
          shop.handedOver.add(member.id);
          return `The owner will write to ${member.id}.`;
        },
        member: member.id,
        subjects: [member.name],
        endsEpisode: true,
      });
    }
    default:
      return failed(`no tool ${shown(call.name)}`);
  }
}

function changeOf(parts: Pick<Change, "apply" | "subjects"> & Partial<Change>): Change {
  return { type: "change", forbiddenBy: null, member: null, thingsToConfirm: [], endsEpisode: false, ...parts };
}

function orderChange(
  shop: Shop,
  order: Order,
  parts: {
    readonly next: Partial<Order>;
    readonly prints: string;
    readonly forbiddenBy: number | null;
    /** Alternative names of the thing that a proposal names besides the order. */
    readonly names?: readonly string[];
    /** Records that must have been looked up besides the order. */
    readonly lookedUp?: readonly string[];
  },
): Change {
  const { next, prints, forbiddenBy, names, lookedUp = [] } = parts;
  return changeOf({
    apply: () => {
      shop.orders.set(order.id, { ...order, ...next });
      return prints;
    },
    forbiddenBy,
    member: order.member,
    subjects: [`${order.id} of`, ...lookedUp],
    thingsToConfirm: names === undefined ? [[order.id]] : [[order.id], names],
  });
}

function withOrder(shop: Shop, id: string, then: (order: Order) => Result): Result {
  const order = shop.orders.get(id);
  if (order === undefined) return missing("order", id);
  return order.status === "cancelled" ? failed(`${id} is cancelled`) : then(order);
}

function withBook(shop: Shop, args: JsonObject, then: (order: Order, edition: Edition) => Result): Result {
  return withOrder(shop, textOf(args, "order_id"), (order) => {
    const id = textOf(args, "book_id");
    const book = order.books.find(({ edition }) => edition === id);
    const edition = shop.editions.get(id);
    if (book === undefined || edition === undefined) return failed(`${order.id} holds no book ${shown(id)}`);
    return book.isReturned ? failed(`${id} came back before`) : then(order, edition);
  });
}

function missing(what: string, id: string): ChangeError {
  return failed(`no ${what} ${shown(id)}`);
}

function failed(reason: string): ChangeError {
  return { type: "error", text: `Error: ${reason}.` };
}

/** Shortens text that the policy wrote, because it would fill the prompt otherwise. */
export function shown(text: string): string {
  return text === "" ? "without an id" : text.slice(0, 40);
}

/** The desk's actions so far, as far as the rules depend on them. */
export type Conduct = {
  /** The member that was looked up first; `null` before that. */
  readonly servedMember: string | null;
  /** All output of the till, in order. */
  readonly reported: readonly string[];
  /** Utterances to the member since the last change. */
  readonly saidSinceChange: readonly string[];
};

/**
 * The guidelines in code: returns every rule that the change breaks. Rules 1 to 3 depend on the
 * desk's conduct, 4 to 7 on the change itself.
 */
export function brokenRules(change: Change, { servedMember, reported, saidSinceChange }: Conduct): readonly number[] {
  const { member, subjects, thingsToConfirm, forbiddenBy } = change;
  const isServed = servedMember !== null && (member === null || member === servedMember);
  const isLookedUp = subjects.every((id) => reported.some((text) => mentions(text, id)));
  const isProposal = (line: string): boolean =>
    /\?|confirm/i.test(line) && thingsToConfirm.every((ways) => ways.some((way) => mentions(line, way)));
  const isConfirmed = thingsToConfirm.length === 0 || saidSinceChange.some(isProposal);
  const broken = [isServed ? null : 1, isLookedUp ? null : 2, isConfirmed ? null : 3, forbiddenBy];
  return broken.filter((rule) => rule !== null);
}
