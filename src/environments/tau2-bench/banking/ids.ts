// Ids of the bank's records, which are hashes of what they stand for, and its fixed date.

import { createHash } from "node:crypto";
import { PythonError, typeError, codePointIndex } from "../../../python-semantics/index.ts";
import { pythonTypeName } from "../../../python-semantics/json/value.ts";
import type { JsonValue } from "../../../python-semantics/json/index.ts";

/** The date on which everything happens. */
export const today = "11/14/2025";

/** `datetime.now()` of the bank, in milliseconds of UTC. */
export const now = Date.UTC(2025, 10, 14, 3, 40);

const lone = /(?:[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff])+/u;

/**
 * The first hexadecimal digits, an even number of them, of a seed's SHA-256. Throws a `PythonError`
 * for a seed with a lone surrogate, which has no UTF-8.
 */
export function hashId(seed: string, length = 16): string {
  const found = lone.exec(seed);
  if (found !== null) {
    const from = codePointIndex(seed, found.index);
    const [first] = found[0];
    const where =
      found[0].length === 1
        ? `character '\\u${first!.charCodeAt(0).toString(16)}' in position ${from}`
        : `characters in position ${from}-${from + found[0].length - 1}`;
    throw new PythonError("UnicodeEncodeError", `'utf-8' codec can't encode ${where}: surrogates not allowed`);
  }
  return createHash("sha256").update(seed).digest("hex").slice(0, length);
}

/** `":".join(parts)` of a list that should have only strings. */
export function joinSeed(parts: readonly JsonValue[]): string {
  const texts = parts.map((part, index) => {
    if (typeof part === "string") return part;
    throw typeError(`sequence item ${index}: expected str instance, ${pythonTypeName(part)} found`);
  });
  return texts.join(":");
}

/** Days from a date as `MM/DD/YYYY` to now; `null` where `strptime` refuses the text. */
export function daysSince(written: string): number | null {
  const date = parseDate(written);
  return date === null ? null : Math.floor((now - date) / 86_400_000);
}

// `strptime` takes months and days of one digit, and white space nowhere.
const datePattern = /^(1[0-2]|0[1-9]|[1-9])\/(3[01]|[12]\d|0[1-9]|[1-9]| [1-9])\/(\d{4})$/;
const timePattern = /^(2[0-3]|[01]\d|\d):([0-5]\d|\d):(6[01]|[0-5]\d|\d)$/;

/** Milliseconds of a date as `MM/DD/YYYY`; `null` where `strptime` refuses it. */
export function parseDate(written: string): number | null {
  const [, month, day, year] = datePattern.exec(written) ?? [];
  if (month === undefined) return null;
  const date = new Date(0);
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  const isReal = Number(year) >= 1 && date.getUTCMonth() === Number(month) - 1;
  return isReal ? date.getTime() : null;
}

/** Milliseconds of a date as `MM/DD/YYYY HH:MM:SS`; `null` where `strptime` refuses it. */
export function parseDateTime(written: string): number | null {
  const [, day, time] = /^(\S+)\s+(\S+)$/.exec(written) ?? [];
  const date = day === undefined ? null : parseDate(day);
  const [, hours, minutes, seconds] = timePattern.exec(time ?? "") ?? [];
  // The reference's `datetime` has no leap second.
  if (date === null || hours === undefined || Number(seconds) > 59) return null;
  return date + ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000;
}
