// The data of the shop in one episode: a handful of records and the desk's actions. Copied for each
// episode, compared as text at the end. Knows no rules: the till does as it is told. Also the
// records as the policy reads them: one short line each, every id typed, every amount with a dollar
// sign; `expert/records.ts` is the inverse.

import type { JsonObject } from "../../python-semantics/json/value.ts";

export type Member = { readonly id: string; readonly name: string; readonly tier: "silver" | "gold" };

export const formats = ["paperback", "hardcover", "audio"] as const;
export type Format = (typeof formats)[number];

/** One edition of a title; editions of one title share only its name. */
export type Edition = {
  readonly id: string;
  readonly title: string;
  readonly format: Format;
  /** Price in whole dollars. */
  readonly price: number;
  readonly isInStock: boolean;
};

export type OrderStatus = "pending" | "shipped" | "delivered" | "cancelled";

export type OrderedBook = {
  /** Id of the edition. */
  readonly edition: string;
  readonly isSigned: boolean;
  readonly isReturned: boolean;
};

export type Order = {
  readonly id: string;
  /** Id of the member. */
  readonly member: string;
  readonly status: OrderStatus;
  /** Days until it leaves (pending) or arrives (shipped), or since it was delivered; at least 2. */
  readonly days: number;
  readonly address: string;
  readonly books: readonly OrderedBook[];
};

export type Card = {
  readonly id: string;
  /** Id of the member. */
  readonly member: string;
  /** Balance in whole dollars. */
  readonly balance: number;
};

/** The state of an episode. Records are replaced, never changed, so copies may share them. */
export type Shop = {
  readonly members: ReadonlyMap<string, Member>;
  readonly editions: ReadonlyMap<string, Edition>;
  readonly orders: Map<string, Order>;
  readonly cards: Map<string, Card>;
  /** Refusals, such as `#W1042 rule 4`. */
  readonly declined: Set<string>;
  /** Members whose wish was handed over to the owner. */
  readonly handedOver: Set<string>;
  /** Breaches such as `rule 3 by cancel_order`: the shop remembers how its changes came about. */
  readonly breaches: Set<string>;
};

export function copyShop(shop: Shop): Shop {
  return {
    members: shop.members,
    editions: shop.editions,
    orders: new Map(shop.orders),
    cards: new Map(shop.cards),
    declined: new Set(shop.declined),
    handedOver: new Set(shop.handedOver),
    breaches: new Set(shop.breaches),
  };
}

/** The data as text: equal states give equal texts, regardless of the order of their changes. */
export function shopText(shop: Shop): string {
  const byId = (records: Iterable<{ readonly id: string }>): readonly unknown[] =>
    [...records].sort((a, b) => (a.id < b.id ? -1 : 1));
  return JSON.stringify({
    members: byId(shop.members.values()),
    editions: byId(shop.editions.values()),
    orders: byId(shop.orders.values()),
    cards: byId(shop.cards.values()),
    declined: [...shop.declined].sort(),
    handedOver: [...shop.handedOver].sort(),
    breaches: [...shop.breaches].sort(),
  });
}

/** Total price of the books of an order, without returned ones. */
export function orderTotal(shop: Shop, order: Order): number {
  let total = 0;
  for (const book of order.books) if (!book.isReturned) total += shop.editions.get(book.edition)?.price ?? 0;
  return total;
}

/**
 * The line of a record, or `null` if no record has this id. The text that a desk searches for comes
 * before the id that it finds: titles before orders and books, formats before editions. `served`:
 * id of the member at the desk; records of others are marked.
 */
export function describeRecord(shop: Shop, id: string, served: string | null = null): string | null {
  const member = shop.members.get(id);
  if (member !== undefined) return describeMember(shop, member);
  const order = shop.orders.get(id);
  if (order !== undefined) return describeOrder(shop, order, served);
  const edition = shop.editions.get(id);
  if (edition !== undefined) return describeEdition(shop, edition);
  const card = shop.cards.get(id);
  return card === undefined ? null : describeCard(card, served);
}

function describeMember(shop: Shop, member: Member): string {
  const orders: string[] = [];
  for (const order of shop.orders.values()) {
    if (order.member !== member.id) continue;
    orders.push(`${order.books.map((book) => shop.editions.get(book.edition)?.title).join(" and ")} ${order.id}`);
  }
  const cards: string[] = [];
  for (const card of shop.cards.values()) if (card.member === member.id) cards.push(card.id);
  const some = (items: readonly string[], separator: string): string => items.join(separator) || "none";
  return `${member.id} ${member.name}, ${member.tier}. Orders: ${some(orders, "; ")}. Card: ${some(cards, ", ")}.`;
}

function describeOrder(shop: Shop, order: Order, served: string | null): string {
  const books = order.books.map(({ edition: id, isSigned, isReturned }) => {
    const edition = shop.editions.get(id);
    const marks = `${isSigned ? ", signed" : ""}${isReturned ? ", returned" : ""}`;
    return `${edition?.title} ${id}, ${edition?.format}, $${edition?.price}${marks}`;
  });
  const total = `Total $${orderTotal(shop, order)}.`;
  return `${order.id} of ${ownerOf(order, served)}, ${describeStatus(order)}. ${books.join("; ")}. ${total}`;
}

function describeStatus({ status, days, address }: Order): string {
  switch (status) {
    case "pending":
      return `pending, leaves in ${days} days, to ${address}`;
    case "shipped":
      return `shipped, arrives in ${days} days, to ${address}`;
    case "delivered":
      return `delivered ${days} days ago, to ${address}`;
    case "cancelled":
      return "cancelled";
    default:
      return status satisfies never;
  }
}

function describeEdition(shop: Shop, edition: Edition): string {
  const line = ({ id, format, price, isInStock }: Edition): string =>
    `${format} ${id}, $${price}, ${isInStock ? "in stock" : "sold out"}`;
  const lines = [line(edition)];
  for (const other of shop.editions.values()) {
    if (other.title === edition.title && other.id !== edition.id) lines.push(line(other));
  }
  return `${edition.title}: ${lines.join("; ")}.`;
}

function ownerOf({ member }: Order | Card, served: string | null): string {
  return served === null || member === served ? member : `another member, ${member}`;
}

function describeCard(card: Card, served: string | null): string {
  return `${card.id} of ${ownerOf(card, served)}, balance $${card.balance}.`;
}

/** The text of an argument; an argument that is not a string reads as "". */
export function textOf(args: JsonObject, key: string): string {
  const value = args.get(key);
  return typeof value === "string" ? value.trim() : "";
}
