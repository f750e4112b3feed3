// Limits on the output of one operation. Python has no such limits; they are far above the needs of
// conversations and stop hostile programs before these exhaust the process. Beyond them operations
// throw a `PythonError` "limit".

import { PythonError } from "./errors.ts";

/** Maximum number of characters of one text: sixteen times the longest existing prompts. */
export const maxTextLength = 2 ** 26;
/** Maximum number of items of one list created by multiplication or addition. */
const maxItems = 2 ** 22;

/** Throws before a text of this length would be created. */
export function checkTextLength(length: number): void {
  if (length > maxTextLength) throw limitError(`it makes a text of more than ${maxTextLength} characters`);
}

export function checkItems(count: number): void {
  if (count > maxItems) throw limitError(`it makes a list of more than ${maxItems} items`);
}

export function limitError(message: string): PythonError {
  return new PythonError("limit", message);
}

let items = 0;

/** Counts the items of a new container. */
export function countItems(count: number): void {
  items += count;
  spend(count);
}

/**
 * Total number of items of all lists, tuples and dicts created so far; a program's share is the
 * difference.
 */
export function itemsMade(): number {
  return items;
}

let spent = 0;
let mostSpent = Infinity;

/**
 * A program has used up the operations of {@link withAllowance}. This is not an error in the
 * program: it may be run again without an allowance.
 */
export class AllowanceSpent extends Error {}

/**
 * Counts small operations of a few nanoseconds each. Every operation that can be repeated without
 * bound counts its repetitions, so that the count limits the time. Throws {@link AllowanceSpent}
 * beyond the allowance.
 */
export function spend(operations: number): void {
  spent += operations;
  if (spent > mostSpent) throw new AllowanceSpent();
}

/** Returns or throws the result of `program`, with at most this many operations. */
export function withAllowance<T>(operations: number, program: () => T): T {
  const outer = mostSpent;
  mostSpent = Math.min(outer, spent + operations);
  try {
    return program();
  } finally {
    mostSpent = outer;
  }
}
