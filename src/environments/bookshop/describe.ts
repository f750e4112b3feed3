// Records as the policy reads them: one short line each, every id typed, every amount with a dollar sign. The scripted
// expert reads the same lines back; `expert/records.ts` is this file's mirror.

import { type Card, type Edition, type Member, type Order, orderTotal, type Shop } from "./shop.ts";

/** The line of a record, or `null` when there is none of this id. */
export function describeRecord(shop: Shop, id: string): string | null {
  const member = shop.members.get(id);
  if (member !== undefined) return describeMember(shop, member);
  const order = shop.orders.get(id);
  if (order !== undefined) return describeOrder(shop, order);
  const edition = shop.editions.get(id);
  if (edition !== undefined) return describeEdition(shop, edition);
  const card = shop.cards.get(id);
  return card === undefined ? null : describeCard(card);
}

function describeMember(shop: Shop, member: Member): string {
  const orders: string[] = [];
  for (const order of shop.orders.values()) {
    if (order.member !== member.id) continue;
    orders.push(`${order.id} ${order.books.map((book) => shop.editions.get(book.edition)?.title).join(", ")}`);
  }
  const cards: string[] = [];
  for (const card of shop.cards.values()) if (card.member === member.id) cards.push(card.id);
  const some = (items: readonly string[], separator: string): string => items.join(separator) || "none";
  return `${member.id} ${member.name}, ${member.tier}. Orders: ${some(orders, "; ")}. Card: ${some(cards, ", ")}.`;
}

function describeOrder(shop: Shop, order: Order): string {
  const books = order.books.map(({ edition: id, isSigned, isReturned }) => {
    const edition = shop.editions.get(id);
    const marks = `${isSigned ? ", signed" : ""}${isReturned ? ", returned" : ""}`;
    return `${id} ${edition?.title}, ${edition?.format}, $${edition?.price}${marks}`;
  });
  const total = `Total $${orderTotal(shop, order)}.`;
  return `${order.id} of ${order.member}, ${describeStatus(order)}. ${books.join("; ")}. ${total}`;
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
  const line = ({ format, price, isInStock }: Edition): string =>
    `${format}, $${price}, ${isInStock ? "in stock" : "sold out"}`;
  const others: string[] = [];
  for (const other of shop.editions.values()) {
    if (other.title === edition.title && other.id !== edition.id) others.push(`${other.id} ${line(other)}`);
  }
  const also = others.length === 0 ? "" : ` Also: ${others.join("; ")}.`;
  return `${edition.id} ${edition.title}, ${line(edition)}.${also}`;
}

function describeCard(card: Card): string {
  return `${card.id} of ${card.member}, balance $${card.balance}.`;
}
