// What keeps exact integers from running away. Python has no bound and computes `9**9**9` for minutes; every integer beyond
// 1,024 bits that reaches the end is an `OverflowError` there ("int too large to convert to float"), so that is what an
// integer beyond the bound becomes here. Only expressions that divide such a giant down again answer differently.

import { PythonError } from "../python-error.ts";

/** Largest integer that is computed, in bits (79,000 digits): the slowest operation on it takes about 5 ms. */
export const maxIntegerBits = 2 ** 18;

/** Bits that all operations of one expression may produce together, so that a long one takes no longer than 50 ms. */
const maxTotalBits = 2 ** 21;

/** Results below this size cost less than reading their operands; they are free. */
const freeBits = 4096;

export class IntegerBudget {
  #left = maxTotalBits;

  /** Announces a result (or operand) of so many bits. Throws the `OverflowError` when that is too much. */
  spend(bits: number): void {
    if (bits > freeBits) this.#left -= bits;
    if (bits > maxIntegerBits || this.#left < 0) {
      throw new PythonError("OverflowError", "int too large to convert to float");
    }
  }
}
