// The till: reads a tool call as a change of the shop's data, and makes it. It checks that records exist and fit
// together; whether the desk's rules allow a change is no business of the till (`rules.ts`).

import type { EnvironmentCall } from "../../core/environment.ts";
import type { JsonObject } from "../../python-semantics/json/value.ts";
import { type Card, type Edition, type Member, type Order, orderTotal, type Shop } from "./shop.ts";

/** A change whose records exist. */
export type Change =
  | { readonly type: "cancel"; readonly order: Order }
  | { readonly type: "address"; readonly order: Order; readonly address: string }
  | { readonly type: "return"; readonly order: Order; readonly edition: Edition }
  | { readonly type: "swap"; readonly order: Order; readonly edition: Edition; readonly newEdition: Edition }
  | { readonly type: "top-up"; readonly card: Card; readonly amount: number }
  | { readonly type: "decline"; readonly record: Order | Card; readonly rule: number }
  | { readonly type: "hand-over"; readonly member: Member };

export type ChangeError = { readonly type: "error"; readonly text: string };

/** Never throws on arguments of a policy. */
export function readChange(shop: Shop, call: EnvironmentCall): Change | ChangeError {
  const argument = (key: string): string => textOf(call.arguments, key);
  switch (call.name) {
    case "cancel_order":
      return withOrder(shop, argument("order_id"), (order) => ({ type: "cancel", order }));
    case "change_address": {
      const address = argument("address").trim().replace(/\.$/, "");
      if (address === "" || address.length > 100) return failed("an address has 1 to 100 letters");
      return withOrder(shop, argument("order_id"), (order) => ({ type: "address", order, address }));
    }
    case "return_book":
      return withOrder(shop, argument("order_id"), (order) =>
        withBook(shop, order, argument("book_id"), (edition) => ({ type: "return", order, edition })),
      );
    case "swap_book":
      return withOrder(shop, argument("order_id"), (order) =>
        withBook(shop, order, argument("book_id"), (edition) => {
          const newEdition = shop.editions.get(argument("new_book_id"));
          if (newEdition === undefined) return missing("book", argument("new_book_id"));
          if (newEdition.id === edition.id) return failed(`${edition.id} is that edition`);
          return { type: "swap", order, edition, newEdition };
        }),
      );
    case "top_up_card": {
      const card = shop.cards.get(argument("card_id"));
      const amount = call.arguments.get("amount");
      if (card === undefined) return missing("card", argument("card_id"));
      if (typeof amount !== "number" || amount <= 0 || amount > 1000)
        return failed("amount is whole dollars, 1 to 1000");
      return { type: "top-up", card, amount };
    }
    case "decline": {
      const record = shop.orders.get(argument("id")) ?? shop.cards.get(argument("id"));
      const rule = call.arguments.get("rule");
      if (record === undefined) return missing("order or card", argument("id"));
      if (typeof rule !== "number" || rule < 1 || rule > 10) return failed("rules go from 1 to 10");
      return { type: "decline", record, rule };
    }
    case "hand_over": {
      const member = shop.members.get(argument("member_id"));
      return member === undefined ? missing("member", argument("member_id")) : { type: "hand-over", member };
    }
    default:
      return failed(`no tool ${shown(call.name)}`);
  }
}

/** Makes the change and says what the till prints. */
export function applyChange(shop: Shop, change: Change): string {
  switch (change.type) {
    case "cancel": {
      const { order } = change;
      shop.orders.set(order.id, { ...order, status: "cancelled" });
      return `${order.id} cancelled. Refund $${orderTotal(shop, order)}.`;
    }
    case "address": {
      // A new label costs a day, so that there is something to tell that was not known before.
      const order = { ...change.order, address: change.address, days: change.order.days + 1 };
      shop.orders.set(order.id, order);
      return `${order.id} goes to ${order.address}, leaves in ${order.days} days.`;
    }
    case "return": {
      const { order, edition } = change;
      const books = order.books.map((book) => (book.edition === edition.id ? { ...book, isReturned: true } : book));
      shop.orders.set(order.id, { ...order, books });
      return `${edition.id} comes back. Refund $${edition.price}.`;
    }
    case "swap": {
      const { order, edition, newEdition } = change;
      const books = order.books.map((book) =>
        book.edition === edition.id ? { ...book, edition: newEdition.id } : book,
      );
      shop.orders.set(order.id, { ...order, books });
      const difference = newEdition.price - edition.price;
      return `${order.id} now holds ${newEdition.id}. ${difference < 0 ? "Refund" : "To pay"} $${Math.abs(difference)}.`;
    }
    case "top-up": {
      const card = { ...change.card, balance: change.card.balance + change.amount };
      shop.cards.set(card.id, card);
      return `${card.id} has a balance of $${card.balance}.`;
    }
    case "decline":
      shop.declined.add(`${change.record.id} rule ${change.rule}`);
      return `Noted: ${change.record.id}, rule ${change.rule}.`;
    case "hand-over":
      shop.handedOver.add(change.member.id);
      return `The owner will write to ${change.member.id}.`;
    default:
      return change satisfies never;
  }
}

type Result = Change | ChangeError;

function withOrder(shop: Shop, id: string, then: (order: Order) => Result): Result {
  const order = shop.orders.get(id);
  if (order === undefined) return missing("order", id);
  return order.status === "cancelled" ? failed(`${id} is cancelled`) : then(order);
}

function withBook(shop: Shop, order: Order, id: string, then: (edition: Edition) => Result): Result {
  const book = order.books.find(({ edition }) => edition === id);
  const edition = shop.editions.get(id);
  if (book === undefined || edition === undefined) return failed(`${order.id} holds no book ${shown(id)}`);
  return book.isReturned ? failed(`${id} came back before`) : then(edition);
}

/** The text of an argument; anything that is no text reads as none. */
export function textOf(args: JsonObject, key: string): string {
  const value = args.get(key);
  return typeof value === "string" ? value.trim() : "";
}

function missing(what: string, id: string): ChangeError {
  return failed(`no ${what} ${shown(id)}`);
}

function failed(reason: string): ChangeError {
  return { type: "error", text: `Error: ${reason}.` };
}

/** A policy's own text comes back cut: it would fill the prompt otherwise. */
function shown(text: string): string {
  return text === "" ? "without an id" : text.slice(0, 40);
}
