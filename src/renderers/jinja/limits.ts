// What a template may use up. Python bounds nothing but ranges, so these bounds lie far above what conversations need: they
// stop a hostile template, which then raises "limit", before it stops the process.

import { limitError, pythonError } from "./values/raise.ts";

/** Characters of one text that a template makes: sixteen times the longest prompts there are. */
export const maxTextLength = 2 ** 26;
/** Characters and items read or written by all operations of one rendering together. */
const maxWork = 2 ** 32;
/** Iterations of all loops of one rendering together. */
const maxIterations = 2 ** 25;
/** Macros within macros; CPython's own recursion limit stops near 250. */
export const maxDepth = 200;
/** Bits of an integer. */
export const maxIntegerBits = 2 ** 14;
/** Items of one list made by multiplication or addition. */
export const maxItems = 2 ** 22;

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
