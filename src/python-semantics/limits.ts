// What one operation may make. Python has no such bounds; they lie far above what conversations need and stop hostile
// programs before they stop the process. Beyond them operations throw a `PythonError` "limit".

import { PythonError } from "./errors.ts";

/** Characters of one text: sixteen times the longest prompts there are. */
export const maxTextLength = 2 ** 26;
/** Items of one list made by multiplication or addition. */
const maxItems = 2 ** 22;

/** Throws before a text of that length would be made. */
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

/** Counts the items of a container that is made. */
export function countItems(count: number): void {
  items += count;
  spend(count);
}

/** Items of all lists, tuples and dicts made so far; the difference is what a program has made. */
export function itemsMade(): number {
  return items;
}

let spent = 0;
let mostSpent = Infinity;

/** A program has used up the operations of {@link withAllowance}. Not an error of the program: it may be run again without. */
export class AllowanceSpent extends Error {}

/**
 * Counts small operations, some nanoseconds each: whatever can be repeated without end counts what it repeats, so that the count
 * bounds the time. Throws {@link AllowanceSpent} beyond the allowance.
 */
export function spend(operations: number): void {
  spent += operations;
  if (spent > mostSpent) throw new AllowanceSpent();
}

/** What `program` returns or throws, with that many operations at most. */
export function withAllowance<T>(operations: number, program: () => T): T {
  const outer = mostSpent;
  mostSpent = Math.min(outer, spent + operations);
  try {
    return program();
  } finally {
    mostSpent = outer;
  }
}
