// The clerk's manual: the one right next step, by the guidelines, for the current state of the
// desk, and how the clerk reports the result to the member: the day or the amount that the till
// printed, or the reason of a rule.

import type { JsonValue } from "../../../python-semantics/json/index.ts";
import { type Desk, said, type Wish } from "./desk.ts";
import type { Call, CardRecord, EditionLine, MemberRecord, OrderRecord } from "./records.ts";

export type Action =
  | { readonly type: "say"; readonly content: string }
  | {
      readonly type: "call";
      readonly call: Call;
      /** The clerk's private note before the call; "" for none. */
      readonly note: string;
    };

export type Step = {
  readonly action: Action;
  /** The action of a clerk who skips a rule here; `null` if no rule can be skipped. */
  readonly shortcut: Action | null;
};

/**
 * `isLenient`: the clerk refuses only what days and amounts forbid. The facts that an action
 * depends on are written down right before it, in lenient conversations too: the wish, the owner of
 * a record, its status, how a number compares with its limits.
 */
export function nextStep(desk: Desk, isLenient: boolean): Step {
  const { wish, member } = desk;
  if (wish.isObjected) return say("I am sorry, I cannot, not even for the owl. Anything else?");
  if (desk.failures >= 3) return say("I am sorry, I cannot: the till is broken. Anything else?");
  if (wish.done !== null) return say(ending(desk, wish.done));
  if (wish.kind === null) return say("Welcome to Inkwell & Owl! What can I do for you?");
  if (member === null) return identify(desk);
  if (wish.kind === "owner") return step(call("hand_over", { member_id: member.id }, wishNote(wish)));
  const bookId = said.book(wish.lines);
  if (wish.kind === "question" && bookId !== null) return aboutPrice(desk, bookId);
  const isCard =
    wish.kind === "top_up" || (wish.kind === "question" && wish.lines.some((line) => /\bcard\b/i.test(line)));
  const record = isCard ? findCard(desk, member) : findOrder(desk, member);
  if (isStep(record)) return record;
  const isForeign = record.member !== member.id;
  const opening = `${wishNote(wish)}: ${isForeign ? `${record.id} is of another member. ` : ""}`;
  const allowed =
    record.type === "card"
      ? aboutCard(desk, record, opening)
      : aboutOrder({ desk, member, isLenient, opening }, record);
  return isForeign ? forbidden(isLenient, { id: record.id, rule: 1, note: opening.trim() }, allowed) : allowed;
}

/**
 * A step that a rule forbids: a clerk who keeps the rules declines, another one takes `otherwise`.
 */
function forbidden(
  isLenient: boolean,
  refusal: { readonly id: string; readonly rule: number; readonly note: string },
  otherwise: Step | null,
): Step {
  if (isLenient && otherwise !== null) return otherwise;
  const { id, rule, note } = refusal;
  return { action: call("decline", { id, rule }, note), shortcut: otherwise?.action ?? null };
}

/**
 * The wish in the clerk's wording, with the known facts; written again with every step, since a
 * small model forgets.
 */
function wishNote({ kind, lines }: Wish): string {
  const [title, format, address, amount] = [
    said.title(lines),
    said.format(lines),
    said.address(lines),
    said.amount(lines),
  ];
  const id = said.order(lines) ?? said.card(lines) ?? said.book(lines);
  const words = (verb: string, ...parts: readonly (string | null)[]): string =>
    [verb, id, ...parts].filter((part) => part !== null).join(" ");
  const after = (word: string, value: string | null): string | null => (value === null ? null : `${word}${value}`);
  switch (kind) {
    case "question":
      return words(`Tell ${aspectOf(lines)}`, title, after("as ", format));
    case "address":
      return words("Send", title, after("to ", address));
    case "swap":
      return words("Swap", title, after("for ", format));
    case "top_up":
      return words("Top up", after("$", amount));
    case "cancel":
      return words("Cancel", title);
    case "return":
      return words("Return", title);
    default:
      return "For the owner";
  }
}

function aspectOf(lines: readonly string[]): string {
  const question = lines.join(" ");
  if (/\bcard\b/i.test(question)) return "balance";
  if (said.book(lines) !== null) return "price";
  if (/\bpay\b|how much was/i.test(question)) return "total";
  return /where does|which address/i.test(question) ? "address" : "days";
}

function identify({ memberId, isGreeted, lastFailure, wish }: Desk): Step {
  const isUnknown = memberId !== null && (lastFailure?.includes(memberId) ?? false);
  if (memberId !== null && !isUnknown) return lookUp(memberId, wishNote(wish));
  if (isUnknown) return say(`I find no ${memberId}. May I have your member id?`);
  return say(`${isGreeted ? "" : "Welcome to Inkwell & Owl! "}May I have your member id?`);
}

/** Finds and reads the card that the wish is about, or returns the step that leads there. */
function findCard({ wish, cards }: Desk, member: MemberRecord): CardRecord | Step {
  const isOnly = wish.lines.some((line) => /\bonly\b/i.test(line));
  const named = said.card(wish.lines);
  const id = named ?? (isOnly ? member.card : null);
  if (id === null) return say("Which card is it?");
  return cards.get(id) ?? lookUp(id, `${wishNote(wish)}${named === null ? `: Card: ${id}` : ""}`);
}

function findOrder({ wish, orders }: Desk, member: MemberRecord): OrderRecord | Step {
  const title = said.title(wish.lines);
  const named = said.order(wish.lines);
  const byTitle = title === null ? undefined : member.orders.find(({ titles }) => titles.includes(title));
  const id = named ?? byTitle?.id;
  if (id === undefined) return say("Which order is it?");
  const found = named === null ? `: ${byTitle?.titles.join(" and ")} ${id}` : "";
  return orders.get(id) ?? lookUp(id, `${wishNote(wish)}${found}`);
}

function aboutPrice({ wish, books }: Desk, id: string): Step {
  const book = books.get(id);
  if (book === undefined) return lookUp(id, wishNote(wish));
  const format = said.format(wish.lines);
  const edition = book.editions.find((one) => one.format === format) ?? book.editions[0];
  return say(`${wishNote(wish)}: ${edition?.format} ${edition?.id} costs $${edition?.price}. Anything else?`);
}

function aboutCard(desk: Desk, card: CardRecord, opening: string): Step {
  const { wish } = desk;
  if (wish.kind === "question")
    return say(`${opening}Card ${card.id} has a balance of $${card.balance}. Anything else?`);
  const amount = said.amount(wish.lines);
  if (amount === null) return say("How much shall it be?");
  const [low, high] = [comparison(Number(amount), 10), comparison(Number(amount), 50)];
  const note = `${opening}${low}, ${high}.`;
  const change = call("top_up_card", { card_id: card.id, amount: Number(amount) });
  const allowed = propose(desk, `${note} I will put $${amount} on card ${card.id}.`, change);
  const isForbidden = Number(amount) < 10 || Number(amount) > 50;
  return isForbidden ? forbidden(false, { id: card.id, rule: 7, note }, allowed) : allowed;
}

/**
 * Both numbers come before the word that compares them, so that the comparison can be read off the
 * text just written.
 */
export function comparison(number: number, limit: number): string {
  return `${number} to ${limit}: ${number > limit ? "more" : number < limit ? "less" : "same"}`;
}

type OrderCase = {
  readonly desk: Desk;
  readonly member: MemberRecord;
  readonly isLenient: boolean;
  /** Prefix of all text that the clerk writes. */
  readonly opening: string;
};

function aboutOrder(given: OrderCase, order: OrderRecord): Step {
  const { desk, isLenient, opening } = given;
  const { lines, kind } = desk.wish;
  if (kind === "question") return say(`${opening}${orderAnswer(aspectOf(lines), order)} Anything else?`);
  const note = `${opening}The order is ${order.status}${order.status === "delivered" ? ` ${order.days} days ago` : ""}.`;
  if (kind === "return") return takeBack(given, order, note);
  const allowed = kind === "swap" ? swap(given, order, note) : kind === "cancel" ? cancel() : send();
  return order.status === "pending" ? allowed : forbidden(isLenient, { id: order.id, rule: 4, note }, allowed);

  function cancel(): Step {
    const change = call("cancel_order", { order_id: order.id });
    return propose(desk, `${note} I will cancel order ${order.id} and refund $${order.total}.`, change);
  }

  function send(): Step {
    const address = said.address(lines);
    if (address === null) return say("What is the new address?");
    const change = call("change_address", { order_id: order.id, address });
    return propose(desk, `${note} I will send order ${order.id} to ${address}.`, change);
  }
}

function orderAnswer(aspect: string, { id, total, address, days, status }: OrderRecord): string {
  if (aspect === "total") return `You paid $${total} for ${id}.`;
  if (aspect === "address") return `Order ${id} goes to ${address}.`;
  const fate = { pending: `leaves in ${days} days`, shipped: `arrives in ${days} days` }[status];
  return `Order ${id} ${fate ?? `was delivered ${days} days ago`}.`;
}

function takeBack({ desk, member, isLenient }: OrderCase, order: OrderRecord, status: string): Step {
  const book = bookOf(desk, order);
  if (book === null) return say("Which book is it?");
  const limit = member.tier === "gold" ? 60 : 30;
  const isDelivered = order.status === "delivered";
  const isSigned = book.marks.includes("signed");
  const days = isDelivered ? ` Of ${member.tier}, ${comparison(order.days, limit)}.` : "";
  const note = `${status}${days}${isSigned ? " A signed copy." : ""}`;
  const proposal = `${note} From order ${order.id} I will take back ${book.title} ${book.id} and refund $${book.price}.`;
  const allowed = propose(desk, proposal, call("return_book", { order_id: order.id, book_id: book.id }));
  const refusal = { id: order.id, rule: 6, note };
  if (isDelivered && order.days > limit) return forbidden(false, refusal, allowed);
  return isDelivered && !isSigned ? allowed : forbidden(isLenient, refusal, allowed);
}

function swap({ desk, isLenient, opening }: OrderCase, order: OrderRecord, status: string): Step {
  const book = bookOf(desk, order);
  if (book === null) return say("Which book is it?");
  const format = said.format(desk.wish.lines);
  if (format === null) return say("Which edition would you like?");
  if (!desk.books.has(book.id)) return lookUp(book.id, `${status} ${book.title} ${book.id}.`);
  const wanted = desk.books.get(book.id)?.editions.find((one) => one.format === format);
  if (wanted === undefined) return forbidden(isLenient, { id: order.id, rule: 5, note: opening.trim() }, null);
  const note = `${opening}The ${format} ${wanted.id} is ${wanted.marks}.`;
  const change = call("swap_book", { order_id: order.id, book_id: book.id, new_book_id: wanted.id });
  const proposal = `${note} In order ${order.id} I will swap ${book.id} for ${format} ${wanted.id}.`;
  const allowed = propose(desk, proposal, change);
  return wanted.marks === "sold out" ? forbidden(isLenient, { id: order.id, rule: 5, note }, allowed) : allowed;
}

function bookOf({ wish }: Desk, order: OrderRecord): EditionLine | null {
  const title = said.title(wish.lines);
  const named = order.books.find((book) => book.title === title);
  return named ?? (order.books.length === 1 ? order.books[0]! : null);
}

function propose({ wish }: Desk, proposal: string, change: Action): Step {
  if (wish.consent === "given") return step(change);
  return { action: { type: "say", content: `${proposal} Do you confirm?` }, shortcut: change };
}

function lookUp(id: string, note = ""): Step {
  return step(call("look_up", { id }, note));
}

function say(words: string): Step {
  return step({ type: "say", content: words });
}

function step(action: Action): Step {
  return { action, shortcut: null };
}

function call(name: string, args: Readonly<Record<string, JsonValue>>, note = ""): Action {
  return { type: "call", call: { name, arguments: new Map(Object.entries(args)) }, note };
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
