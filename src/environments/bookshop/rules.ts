// The guidelines in code: which of them a change would break. Rules 4 to 7 judge the change alone, rules 1 to 3 what the
// desk did before it. Used for the record of breaches, which is part of the state, and by tests; never by the till.

import { mentions } from "../../lib/text.ts";
import type { Change } from "./change.ts";
import type { Shop } from "./shop.ts";

/** What the desk did so far, as far as rules ask for it. */
export type Conduct = {
  /** The member looked up first; `null` before that. */
  readonly servedMember: string | null;
  /** Everything that the till reported, in order. */
  readonly reported: readonly string[];
  /** What was said to the member since the last change. */
  readonly saidSinceChange: readonly string[];
};

/** The rule from 4 to 7 that forbids the change, or `null`. */
export function forbiddingRule(shop: Shop, change: Change): number | null {
  switch (change.type) {
    case "cancel":
    case "address":
      return change.order.status === "pending" ? null : 4;
    case "swap":
      if (change.order.status !== "pending") return 4;
      return change.newEdition.isInStock && change.newEdition.title === change.edition.title ? null : 5;
    case "return": {
      const { order, edition } = change;
      const limit = shop.members.get(order.member)?.tier === "gold" ? 60 : 30;
      const isSigned = order.books.some((book) => book.edition === edition.id && book.isSigned);
      return order.status === "delivered" && order.days <= limit && !isSigned ? null : 6;
    }
    case "top-up":
      return change.amount >= 10 && change.amount <= 50 ? null : 7;
    case "decline":
    case "hand-over":
      return null;
    default:
      return change satisfies never;
  }
}

/** Every rule that the change breaks, given how the desk went about it. */
export function brokenRules(shop: Shop, change: Change, conduct: Conduct): readonly number[] {
  const broken: number[] = [];
  if (!servesMember(change, conduct.servedMember)) broken.push(1);
  if (!subjects(change).every((id) => conduct.reported.some((text) => mentions(text, id)))) broken.push(2);
  const things = thingsToConfirm(change);
  const isProposal = (words: string): boolean =>
    /\?|confirm/i.test(words) && things.every((ways) => ways.some((way) => mentions(words, way)));
  if (things.length > 0 && !conduct.saidSinceChange.some(isProposal)) broken.push(3);
  const forbidding = forbiddingRule(shop, change);
  return forbidding === null ? broken : [...broken, forbidding];
}

function servesMember(change: Change, served: string | null): boolean {
  if (served === null) return false;
  switch (change.type) {
    case "decline":
      return true;
    case "hand-over":
      return change.member.id === served;
    case "top-up":
      return change.card.member === served;
    default:
      return change.order.member === served;
  }
}

/** Records that must have been looked up. The record's own line is meant, so its id with what follows it there. */
function subjects(change: Change): readonly string[] {
  switch (change.type) {
    case "decline":
      return [`${change.record.id} of`];
    case "hand-over":
      return [change.member.name];
    case "top-up":
      return [`${change.card.id} of`];
    case "swap":
      return [`${change.order.id} of`, change.newEdition.id];
    default:
      return [`${change.order.id} of`];
  }
}

/** What a proposal has to name, with the ways of naming it; nothing where no yes is needed. */
function thingsToConfirm(change: Change): readonly (readonly string[])[] {
  switch (change.type) {
    case "cancel":
      return [[change.order.id]];
    case "address":
      return [[change.order.id], [change.address]];
    case "return":
      return [[change.order.id], [change.edition.id, change.edition.title]];
    case "swap":
      return [[change.order.id], [change.newEdition.id, change.newEdition.format]];
    case "top-up":
      return [[change.card.id], [`$${change.amount}`, `${change.amount} dollars`]];
    case "decline":
    case "hand-over":
      return [];
    default:
      return change satisfies never;
  }
}
