// What a template may use up. Python bounds nothing but ranges, so these bounds lie far above what conversations need: they
// stop a hostile template, which then raises "limit", before it stops the process.

import { limitError, pythonError } from "./values/raise.ts";

/** Characters of one text that a template makes: sixteen times the longest prompts there are. */
export const maxTextLength = 2 ** 26;
/** Characters and items read or written by all operations of one rendering together: a thousand times the longest prompts. */
const maxWork = 2 ** 30;
/** Characters of a template. Published ones have up to 40,000. */
export const maxTemplateLength = 2 ** 20;
/** For compiling a template, and for one rendering. Prompts of 128,000 tokens take a twentieth of a second. */
export const maxTimeMs = 10_000;
/** Iterations of all loops of one rendering together: a loop over all messages within a loop over 2,800 of them. */
const maxIterations = 2 ** 23;
/** Macros within macros; CPython's own recursion limit stops near 250. */
export const maxDepth = 200;
/** Bits of an integer. */
export const maxIntegerBits = 2 ** 14;
/** Items of one list made by multiplication or addition. */
export const maxItems = 2 ** 22;
/** Items of all lists, tuples and dicts that one rendering makes. */
const maxAllItems = 2 ** 23;

/** What one rendering has used up. */
export class Meter {
  #work = 0;
  #iterations = 0;
  #depth = 0;

  /** Throws when all operations together have touched too much text. */
  work(amount: number): void {
    this.#work += amount;
    if (this.#work > maxWork) throw limitError(`it works on more than ${maxWork} characters`);
  }

  iteration(): void {
    if (++this.#iterations > maxIterations) throw limitError(`its loops run more than ${maxIterations} times`);
  }

  /** Runs a macro one level deeper. */
  descend<T>(run: () => T): T {
    if (++this.#depth > maxDepth)
      throw pythonError("RecursionError", `its macros call each other more than ${maxDepth} deep`);
    try {
      return run();
    } finally {
      this.#depth--;
    }
  }
}

/** Throws before a text of that length would be made. */
export function checkTextLength(length: number): void {
  if (length > maxTextLength) throw limitError(`it makes a text of more than ${maxTextLength} characters`);
}

export function checkItems(count: number): void {
  if (count > maxItems) throw limitError(`it makes a list of more than ${maxItems} items`);
}

/** Of the rendering that runs now: one never waits, so there is only one. */
let allItems = 0;

export function startItems(): void {
  allItems = 0;
}

/** Throws when the containers of this rendering together have too many items. */
export function countItems(count: number): void {
  allItems += count;
  if (allItems > maxAllItems) throw limitError(`it makes lists of more than ${maxAllItems} items together`);
}
