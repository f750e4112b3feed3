// Rows into a file. The contract, and the file that appears only when it is whole.

import type { AnyRow } from "./row-columns.ts";

/**
 * Takes rows in order. Memory does not grow with their number.
 *
 * Guarantees: `write` resolves once its rows may be forgotten; after `close` the file is whole and has its name, and until
 * then there is no file of that name. After `abandon` nothing is left.
 */
export interface RowFile {
  write(rows: readonly AnyRow[]): Promise<void>;
  /** Bytes written. */
  close(): Promise<number>;
  abandon(): Promise<void>;
}
