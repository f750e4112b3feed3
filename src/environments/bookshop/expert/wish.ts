// What a member wants, read from its lines: the kind of wish, and the ids, titles, addresses, formats and amounts that
// were said. The last thing said counts, so corrections and changes of mind need no rule of their own.

import type { Kind } from "../kinds.ts";
import { streetKinds } from "../words.ts";

const cues: readonly (readonly [Kind, RegExp])[] = [
  [
    "question",
    /\b(when does|how many days|did i pay|how much (was|is|are)|cost as|where does|which address did|balance)\b/i,
  ],
  ["cancel", /\bcancel\b/i],
  ["swap", /\bswap\b|\binstead\b|\banother edition\b/i],
  ["address", /\baddress of\b|\bnew address\b|\b(send|go|goes)\b.* to \d/i],
  ["return", /\b(return|take back|give back)\b/i],
  ["top_up", /\btop up\b|\bput (\$|some money)/i],
];

/** Wishes that no cue fits go to the owner; a bare greeting is no wish. */
export function kindOf(words: string): Kind | null {
  for (const [kind, cue] of cues) if (cue.test(words)) return kind;
  return /^(hi|hello|hey|good \w+)\b[^.!?]*[.!?]*$/i.test(words.trim()) ? null : "owner";
}

export function isYes(words: string): boolean {
  return /^(yes|sure|i confirm|please do|still yes)\b/i.test(words.trim());
}

/** Whether the line begins another wish, whatever came of the last. */
export function opensWish(words: string): boolean {
  return /^(one more thing|while i am here|and another matter|another thing|also)\b/i.test(words.trim());
}

export function isObjection(words: string): boolean {
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
