// What a careful desk clerk has in mind at this point of the conversation: the records it has seen, whom it serves, and
// how far the present wish has come. Folded from the lines, from the first to the last, at every turn.

import type { Kind } from "../kinds.ts";
import type { Call, Line } from "./conversation.ts";
import { type BookRecord, type CardRecord, type MemberRecord, type OrderRecord, readRecord } from "./records.ts";
import { isObjection, isYes, kindOf, opensWish, said } from "./wish.ts";

export type Wish = {
  kind: Kind | null;
  /** The member's lines about it. */
  lines: string[];
  /** Where it stands with the yes: nothing proposed, asked for, given. */
  consent: "none" | "asked" | "given";
  /** The change or refusal that the till confirmed, with what it printed; `null` before that. */
  done: { readonly call: Call; readonly text: string } | null;
  /** The member was told how it ended. */
  isTold: boolean;
  isObjected: boolean;
};

export type Desk = {
  readonly member: MemberRecord | null;
  readonly orders: ReadonlyMap<string, OrderRecord>;
  readonly books: ReadonlyMap<string, BookRecord>;
  readonly cards: ReadonlyMap<string, CardRecord>;
  /** What the member said to be its id. */
  readonly memberId: string | null;
  readonly isGreeted: boolean;
  /** The till's answer to the last call when it was no success; `null` otherwise. */
  readonly lastFailure: string | null;
  /** Calls in a row that failed. */
  readonly failures: number;
  readonly wish: Wish;
};

const successes =
  /^(#\w+ cancelled\.|#\w+ goes to |#\w+ comes back\.|#\w+ now holds |#\w+ has a balance |Noted: |The owner will)/;

export function readDesk(lines: readonly Line[]): Desk {
  let member: MemberRecord | null = null;
  const orders = new Map<string, OrderRecord>();
  const books = new Map<string, BookRecord>();
  const cards = new Map<string, CardRecord>();
  const memberLines: string[] = [];
  let wish = newWish();
  let lastCall: Call | null = null;
  let lastFailure: string | null = null;
  let failures = 0;
  let isGreeted = false;

  for (const line of lines) {
    switch (line.role) {
      case "member":
        memberLines.push(line.words);
        if (opensWish(line.words) || (wish.isTold && !isObjection(line.words))) wish = newWish();
        hear(wish, line.words);
        break;
      case "desk":
        lastCall = line.call;
        if (line.call !== null || line.words.includes("<tool_call>")) break;
        isGreeted = true;
        if (line.words.includes("Do you confirm?")) wish.consent = "asked";
        if (line.words.includes("Anything else?")) wish.isTold = true;
        break;
      case "till": {
        const record = readRecord(line.text);
        if (record?.type === "member") member ??= record;
        if (record?.type === "order") orders.set(record.id, record);
        if (record?.type === "card") cards.set(record.id, record);
        if (record?.type === "book") for (const edition of record.editions) books.set(edition.id, record);
        const isSuccess = record !== null || successes.test(line.text);
        if (isSuccess && record === null && lastCall !== null) wish.done = { call: lastCall, text: line.text };
        lastFailure = isSuccess ? null : line.text;
        failures = isSuccess ? 0 : failures + 1;
        break;
      }
      default:
        line satisfies never;
    }
  }
  const memberId = said.member(memberLines);
  return { member, orders, books, cards, memberId, isGreeted, lastFailure, failures, wish };
}

function newWish(): Wish {
  return { kind: null, lines: [], consent: "none", done: null, isTold: false, isObjected: false };
}

function hear(wish: Wish, words: string): void {
  if (wish.isTold) {
    wish.isObjected = true;
    return;
  }
  wish.lines.push(words);
  wish.kind ??= kindOf(words);
  if (wish.consent === "asked") wish.consent = isYes(words) ? "given" : "none";
}
