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
}

/** Items of all lists, tuples and dicts made so far; the difference is what a program has made. */
export function itemsMade(): number {
  return items;
}
