// How the clerk tells the member how it ended: the day or the amount that the till printed, or the reason of a rule.

import type { Call } from "./conversation.ts";
import type { Desk } from "./desk.ts";
import type { OrderRecord } from "./records.ts";
import { said } from "./wish.ts";

export function ending(desk: Desk, { call, text }: { readonly call: Call; readonly text: string }): string {
  const amount = /\$\d+/.exec(text)?.[0];
  const id = /#\w+/.exec(text)?.[0];
  const told = (words: string): string => `${words} Anything else?`;
  switch (call.name) {
    case "cancel_order":
      return told(`Order ${id} is cancelled, ${amount} comes back to you.`);
    case "change_address":
      return told(`Done: ${text}`);
    case "return_book":
      return told(`Done, ${amount} comes back to you.`);
    case "swap_book":
      return told(text.includes("Refund") ? `Done, you get ${amount} back.` : `Done, you pay ${amount} more.`);
    case "top_up_card":
      return told(`Done, card ${id} has a balance of ${amount}.`);
    case "decline":
      return told(`I am sorry, I cannot: ${reason(desk, id ?? "", Number(call.arguments.get("rule")))}.`);
    default:
      return told("Done.");
  }
}

function reason(desk: Desk, id: string, rule: number): string {
  const order = desk.orders.get(id);
  switch (rule) {
    case 1:
      return `${id} belongs to another member`;
    case 4:
      return order?.status === "shipped" ? `${id} has shipped` : `${id} is ${order?.status}`;
    case 5:
      return `the ${said.format(desk.wish.lines)} is sold out`;
    case 6:
      return order === undefined ? "rule 6 forbids it" : returnReason(order);
    case 7:
      return "a card takes $10 to $50 at a time";
    default:
      return `rule ${rule} forbids it`;
  }
}

function returnReason(order: OrderRecord): string {
  if (order.status !== "delivered") return `${order.id} is not delivered yet`;
  if (order.books.some((book) => book.marks.includes("signed"))) return "we take back no signed copies";
  return `it came ${order.days} days ago`;
}
