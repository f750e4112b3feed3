// Where a sample comes from, as every exporter needs it, and the checks that no exporter skips.

import type { Episode, Sample } from "../core/index.ts";
import { alignmentViolations } from "../trajectories/index.ts";

/** Numbers are counted over the whole export, so that rows of several runs do not meet. */
export type ExportOrigin = {
  readonly episode: Episode;
  /** The episode's number; rows of one episode (branches) share it. */
  readonly index: number;
  readonly groupIndex: number;
  /** Name of the run; `null` when only one is exported. Group and episode ids are unique within a run alone. */
  readonly run: string | null;
  /** K: how many samples the episode has. A trainer that averages over rows gives each the weight 1/K. */
  readonly sampleCount: number;
  /**
   * Mean reward of the group's graded episodes; each counts once, however many samples it has, and those
   * that the run took out of the group do not. `null` when none is graded.
   */
  readonly groupMean: number | null;
};

/**
 * Throws a plain error when the sample's arrays are not aligned, when the policy sampled none of its tokens, and for tokens
 * that are re-encoded text, which must be asked for.
 */
export function checkExportable(sample: Sample, options: { readonly allowTextDelta: boolean }): void {
  if (sample.tokenAccounting === "text-delta" && !options.allowTextDelta) {
    throw new Error(
      `Cannot export sample "${sample.id}": its tokens are re-encoded text ("text-delta"), not what the engine sampled; ` +
        "allow text-delta accounting explicitly, or roll out with token-exact accounting.",
    );
  }
  const violations = alignmentViolations(sample);
  if (violations.length > 0)
    throw new Error(`Cannot export sample "${sample.id}": ${violations.slice(0, 3).join(" ")}`);
  if (!sample.sampledMask.includes(1))
    throw new Error(`Cannot export sample "${sample.id}": the policy sampled none of its tokens.`);
}

/** An id that is unique over all runs of an export. */
export function withRun(run: string | null, id: string): string {
  return run === null ? id : `${run}/${id}`;
}
