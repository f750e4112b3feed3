// The state of mind of a careful desk clerk at this point of the conversation: the records it has
// seen, the member it serves, and the progress of the current wish. Folded from all lines, first to
// last, at every turn. A member's wishes are read from its lines; the last statement counts, so
// corrections and changes of mind need no rule of their own.

import type { Kind } from "../world.ts";
import { streetKinds } from "../words.ts";
import {
  type Call,
  type Line,
  type BookRecord,
  type CardRecord,
  type MemberRecord,
  type OrderRecord,
  readRecord,
} from "./records.ts";

export type Wish = {
  kind: Kind | null;
  /** The member's lines about this wish. */
  lines: string[];
  /** State of the member's consent: not requested, requested, or given. */
  consent: "none" | "asked" | "given";
  /**
   * The change or refusal that the till confirmed, with the text that it printed; `null` before
   * that.
   */
  done: { readonly call: Call; readonly text: string } | null;
  /** True once the member was told the result. */
  isTold: boolean;
  isObjected: boolean;
};

export type Desk = {
  readonly member: MemberRecord | null;
  readonly orders: ReadonlyMap<string, OrderRecord>;
  readonly books: ReadonlyMap<string, BookRecord>;
  readonly cards: ReadonlyMap<string, CardRecord>;
  /** The member id as stated by the member. */
  readonly memberId: string | null;
  readonly isGreeted: boolean;
  /** The till's answer to the last call if that call failed; `null` otherwise. */
  readonly lastFailure: string | null;
  /** Number of consecutive failed calls. */
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
        memberLines.push(line.content);
        if (opensWish(line.content) || (wish.isTold && !isObjection(line.content))) wish = newWish();
        hear(wish, line.content);
        break;
      case "desk":
        lastCall = line.call;
        if (line.call !== null || line.content.includes("<tool_call>")) break;
        isGreeted = true;
        if (line.content.includes("Do you confirm?")) wish.consent = "asked";
        if (line.content.includes("Anything else?")) wish.isTold = true;
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

const cues: readonly (readonly [Kind, RegExp])[] = [
  [
    "question",
    /\b(when does|how many days|did i pay|how much (was|is|are)|cost as|where does|which address did|balance)\b/i,
  ],
  ["cancel", /\bcancel\b/i],
  ["swap", /\bswap\b|\binstead\b|\banother edition\b/i],
  ["address", /\baddress of\b|\bnew address\b|\b(send|go|goes)\b.{0,200} to \d/i],
  ["return", /\b(return|take back|give back)\b/i],
  ["top_up", /\btop up\b|\bput (\$|some money)/i],
];

/**
 * The kind of wish in a line. Wishes that match no cue go to the owner; a bare greeting is not a
 * wish.
 */
function kindOf(words: string): Kind | null {
  for (const [kind, cue] of cues) if (cue.test(words)) return kind;
  return /^(hi|hello|hey|good \w+)\b[^.!?]*[.!?]*$/i.test(words.trim()) ? null : "owner";
}

function isYes(words: string): boolean {
  return /^(yes|sure|i confirm|please do|still yes)\b/i.test(words.trim());
}

/** True if the line begins another wish, regardless of the result of the last one. */
function opensWish(words: string): boolean {
  return /^(one more thing|while i am here|and another matter|another thing|also)\b/i.test(words.trim());
}

function isObjection(words: string): boolean {
  return /\bexception\b|\bnot even\b/i.test(words);
}

const addressPattern = new RegExp(`\\b\\d{1,3} [A-Z]\\w+ (?:${streetKinds.join("|")})\\b`, "g");

export const said = {
  member: (lines: readonly string[]) => last(lines, /#M\d+/g),
  order: (lines: readonly string[]) => last(lines, /#W\d+/g),
  card: (lines: readonly string[]) => last(lines, /#C\d+/g),
  book: (lines: readonly string[]) => last(lines, /#B\d+/g),
  title: (lines: readonly string[]) => last(lines, /\bThe [A-Z][a-z]+ [A-Z][a-z]+/g),
  address: (lines: readonly string[]) => last(lines, addressPattern),
  format: (lines: readonly string[]) => last(lines, /\b(?:paperback|hardcover|audio)\b/g),
  amount: (lines: readonly string[]) => last(lines, /\$\d+/g)?.slice(1) ?? null,
} as const satisfies Readonly<Record<string, (lines: readonly string[]) => string | null>>;

function last(lines: readonly string[], pattern: RegExp): string | null {
  for (const line of lines.toReversed()) {
    const found = line.match(pattern)?.at(-1);
    if (found !== undefined) return found;
  }
  return null;
}
