// Values out of replies that nobody vouches for: each is what it should be, or the reply is refused.

import { copyIds } from "../lib/bytes.ts";
import { badReply, type FailureContext } from "./engine-failure.ts";

/** What a reply names is recorded with every turn. */
const longestName = 1000;

export type Fields = Readonly<Record<string, unknown>>;

/** `null` when the value is no object. */
export function asFields(value: unknown): Fields | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : null;
}

export function isTokenId(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value < 2 ** 32;
}

/** Throws an `AttributedError` with code "bad-reply" that says `name`. */
export function readTokenIds(value: unknown, name: string, context: FailureContext): Uint32Array {
  if (!Array.isArray(value)) throw badReply(context, `${name} is no list`);
  const ids = value as readonly unknown[];
  const wrong = ids.findIndex((id) => !isTokenId(id));
  if (wrong >= 0) throw badReply(context, `${name}[${wrong}] is no token id`);
  return copyIds(ids as readonly number[]);
}

/** A weight version as servers write it: text, or a number in some; `null` when absent. */
export function readWeightVersion(value: unknown, context: FailureContext): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value === "string" && value.length <= longestName) return value;
  if (typeof value === "number" && Number.isFinite(value)) return String(value);
  throw badReply(context, `weight_version is no text of at most ${longestName} characters`);
}

/** Part of a reply as it is recorded, as JSON text. Throws an `AttributedError` with code "bad-reply" where it is long. */
export function rawText(value: unknown, name: string, context: FailureContext): string {
  const raw = JSON.stringify(value);
  if (raw.length <= longestRaw) return raw;
  throw badReply(context, `${name} has ${raw.length} characters, at most ${longestRaw} are expected`);
}

const longestRaw = 10_000;

/** How many; `null` when that makes no sense. For numbers that people read and nothing depends on. */
export function readCount(value: unknown): number | null {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 ? value : null;
}
