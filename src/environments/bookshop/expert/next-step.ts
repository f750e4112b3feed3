// The clerk's manual: the one right next step, by the guidelines, from what the desk has in mind, and how the clerk tells the
// member how it ended: the day or the amount that the till printed, or the reason of a rule.

import type { JsonValue } from "../../../python-semantics/json/index.ts";
import { type Desk, said } from "./desk.ts";
import type { Call, CardRecord, EditionLine, MemberRecord, OrderRecord } from "./records.ts";

export type Action = { readonly type: "say"; readonly words: string } | { readonly type: "call"; readonly call: Call };

export type Step = {
  readonly action: Action;
  /** What a clerk would do here who skips a rule; `null` where there is no such temptation. */
  readonly shortcut: Action | null;
};

export function nextStep(desk: Desk): Step {
  const { wish, member } = desk;
  if (wish.isObjected) return say("I am sorry, I cannot, not even for the owl. Anything else?");
  if (desk.failures >= 3) return say("I am sorry, I cannot: the till is broken. Anything else?");
  if (wish.done !== null) return say(ending(desk, wish.done));
  if (wish.kind === null) return say("Welcome to Inkwell & Owl! What can I do for you?");
  if (member === null) return identify(desk);
  switch (wish.kind) {
    case "owner":
      return step(call("hand_over", { member_id: member.id }));
    case "question":
      return said.book(wish.lines) === null ? aboutRecord(desk, member) : aboutPrice(desk, said.book(wish.lines)!);
    case "top_up":
      return aboutCard(desk, member);
    default:
      return aboutOrder(desk, member);
  }
}

function identify({ memberId, isGreeted, lastFailure }: Desk): Step {
  const isUnknown = memberId !== null && (lastFailure?.includes(memberId) ?? false);
  if (memberId !== null && !isUnknown) return lookUp(memberId);
  if (isUnknown) return say(`I find no ${memberId}. May I have your member id?`);
  return say(`${isGreeted ? "" : "Welcome to Inkwell & Owl! "}May I have your member id?`);
}

/** Finds and reads the card that the wish is about, or says the step that leads there. */
function findCard({ wish, cards }: Desk, member: MemberRecord): CardRecord | Step {
  const isOnly = wish.lines.some((line) => /\bonly\b/i.test(line));
  const id = said.card(wish.lines) ?? (isOnly ? member.card : null);
  return id === null ? say("Which card is it?") : (cards.get(id) ?? lookUp(id));
}

function findOrder({ wish, orders }: Desk, member: MemberRecord): OrderRecord | Step {
  const title = said.title(wish.lines);
  const byTitle = title === null ? undefined : member.orders.find(({ titles }) => titles.includes(title));
  const id = said.order(wish.lines) ?? byTitle?.id;
  return id === undefined ? say("Which order is it?") : (orders.get(id) ?? lookUp(id));
}

function aboutRecord(desk: Desk, member: MemberRecord): Step {
  const { lines } = desk.wish;
  const isAboutCard = lines.some((line) => /\bcard\b/i.test(line));
  const record = isAboutCard ? findCard(desk, member) : findOrder(desk, member);
  if (isStep(record)) return record;
  if (record.member !== member.id) return decline(record.id, 1, null);
  if (record.type === "card") return say(`Card ${record.id} has a balance of $${record.balance}. Anything else?`);
  const question = lines.join(" ");
  if (/\bpay\b|how much was/i.test(question)) return say(`You paid $${record.total} for ${record.id}. Anything else?`);
  if (/where does|which address/i.test(question)) {
    return say(`Order ${record.id} goes to ${record.address}. Anything else?`);
  }
  const { days } = record;
  const fate = { pending: `leaves in ${days} days`, shipped: `arrives in ${days} days` }[record.status];
  return say(`Order ${record.id} ${fate ?? `was delivered ${days} days ago`}. Anything else?`);
}

function aboutPrice({ wish, books }: Desk, id: string): Step {
  const book = books.get(id);
  if (book === undefined) return lookUp(id);
  const format = said.format(wish.lines);
  const edition = book.editions.find((one) => one.format === format) ?? book.editions[0];
  return say(`As ${format}, ${edition?.title} costs $${edition?.price}. Anything else?`);
}

function aboutCard(desk: Desk, member: MemberRecord): Step {
  const card = findCard(desk, member);
  if (isStep(card)) return card;
  const amount = said.amount(desk.wish.lines);
  if (card.member !== member.id) return decline(card.id, 1, null);
  if (amount === null) return say("How much shall it be?");
  const change = call("top_up_card", { card_id: card.id, amount: Number(amount) });
  const proposal = `I will put $${amount} on card ${card.id}.`;
  if (Number(amount) < 10 || Number(amount) > 50) return decline(card.id, 7, proposal);
  return propose(desk, proposal, change);
}

function aboutOrder(desk: Desk, member: MemberRecord): Step {
  const order = findOrder(desk, member);
  if (isStep(order)) return order;
  if (order.member !== member.id) return decline(order.id, 1, null);
  switch (desk.wish.kind) {
    case "cancel": {
      const proposal = `I will cancel order ${order.id} and refund $${order.total}.`;
      if (order.status !== "pending") return decline(order.id, 4, proposal);
      return propose(desk, proposal, call("cancel_order", { order_id: order.id }));
    }
    case "address": {
      if (order.status !== "pending") return decline(order.id, 4, null);
      const address = said.address(desk.wish.lines);
      if (address === null) return say("What is the new address?");
      const change = call("change_address", { order_id: order.id, address });
      return propose(desk, `I will send order ${order.id} to ${address}.`, change);
    }
    case "return":
      return takeBack(desk, order, member);
    default:
      return swap(desk, order);
  }
}

function takeBack(desk: Desk, order: OrderRecord, member: MemberRecord): Step {
  const book = bookOf(desk, order);
  if (book === null) return say("Which book is it?");
  const limit = member.tier === "gold" ? 60 : 30;
  const proposal = `I will take back ${book.id}, ${book.title}, from order ${order.id} and refund $${book.price}.`;
  if (order.status !== "delivered" || order.days > limit || book.marks.includes("signed")) {
    return decline(order.id, 6, proposal);
  }
  return propose(desk, proposal, call("return_book", { order_id: order.id, book_id: book.id }));
}

function swap(desk: Desk, order: OrderRecord): Step {
  if (order.status !== "pending") return decline(order.id, 4, null);
  const book = bookOf(desk, order);
  if (book === null) return say("Which book is it?");
  const format = said.format(desk.wish.lines);
  if (format === null) return say("Which edition would you like?");
  const wanted = desk.books.get(book.id)?.editions.find((one) => one.format === format);
  if (!desk.books.has(book.id)) return lookUp(book.id);
  if (wanted === undefined) return decline(order.id, 5, null);
  const proposal = `I will swap ${book.id} for ${wanted.id}, ${format}, in order ${order.id}.`;
  if (wanted.marks === "sold out") return decline(order.id, 5, proposal);
  const change = call("swap_book", { order_id: order.id, book_id: book.id, new_book_id: wanted.id });
  return propose(desk, proposal, change);
}

function bookOf({ wish }: Desk, order: OrderRecord): EditionLine | null {
  const title = said.title(wish.lines);
  const named = order.books.find((book) => book.title === title);
  return named ?? (order.books.length === 1 ? order.books[0]! : null);
}

function propose({ wish }: Desk, proposal: string, change: Action): Step {
  if (wish.consent === "given") return step(change);
  return { action: { type: "say", words: `${proposal} Do you confirm?` }, shortcut: change };
}

/** With a proposal, a clerk may be tempted to make it all the same. */
function decline(id: string, rule: number, proposal: string | null): Step {
  const shortcut = proposal === null ? null : ({ type: "say", words: `${proposal} Do you confirm?` } as const);
  return { action: call("decline", { id, rule }), shortcut };
}

function lookUp(id: string): Step {
  return step(call("look_up", { id }));
}

function say(words: string): Step {
  return step({ type: "say", words });
}

function step(action: Action): Step {
  return { action, shortcut: null };
}

function call(name: string, args: Readonly<Record<string, JsonValue>>): Action {
  return { type: "call", call: { name, arguments: new Map(Object.entries(args)) } };
}

function isStep(value: Step | TillThing): value is Step {
  return "action" in value;
}

type TillThing = CardRecord | OrderRecord;

function ending(desk: Desk, { call: made, text }: { readonly call: Call; readonly text: string }): string {
  const amount = /\$\d+/.exec(text)?.[0];
  const id = /#\w+/.exec(text)?.[0];
  const told = (words: string): string => `${words} Anything else?`;
  switch (made.name) {
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
      return told(`I am sorry, I cannot: ${reason(desk, id ?? "", Number(made.arguments.get("rule")))}.`);
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
