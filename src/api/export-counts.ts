// What an export counts, and the error of one that has nothing to write.

import { ConfigurationError } from "../core/index.ts";
import type { LeftOut } from "../export/index.ts";

/** What an export wrote and what it left out. */
export type ExportCounts = {
  readonly rows: number;
  /** Episodes with a row. */
  readonly episodes: number;
  /** Groups with a row. */
  readonly groups: number;
  /** `null`: rows of this format hold no tokens. */
  readonly trainedTokens: number | null;
  /** By reason. */
  readonly leftOut: readonly LeftOut[];
};

/** No episode is left for the format; `counts.leftOut` says why. */
export class NothingToExportError extends ConfigurationError {
  readonly counts: ExportCounts;
  constructor(message: string, counts: ExportCounts) {
    super(message);
    this.counts = counts;
  }
}
