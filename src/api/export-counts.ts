// Counts of an export, and the error of an export that has nothing to write.

import { ConfigurationError } from "../core/index.ts";
import type { LeftOut } from "../export/index.ts";

/** Counts of the rows that an export wrote and of those it left out. */
export type ExportCounts = {
  readonly rows: number;
  /** Episodes with a row. */
  readonly episodes: number;
  /** Groups with a row. */
  readonly groups: number;
  /** `null` if rows of this format hold no tokens. */
  readonly trainedTokens: number | null;
  /** Counts of left-out data, one per reason. */
  readonly leftOut: readonly LeftOut[];
};

/** No episode is left for the format; `counts.leftOut` holds the reasons. */
export class NothingToExportError extends ConfigurationError {
  readonly counts: ExportCounts;
  constructor(message: string, counts: ExportCounts) {
    super(message);
    this.counts = counts;
  }
}
