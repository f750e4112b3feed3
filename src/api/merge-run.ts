// mergeRun(): a run whose episodes lie in shards, as a folder in the layout of one process.

import { resolve } from "node:path";
import { type MergedRun, mergeShards } from "../store/index.ts";
import type { CallOptions } from "./options.ts";

/** Options of {@link mergeRun}: the flags of the command `merge` in camelCase. */
export type MergeRunOptions = Pick<CallOptions, "cwd" | "signal"> & {
  /** Run folder with shards. It stays as it is. */
  readonly run: string;
  /** Folder that is made; must not exist. @default `<run>-merged` */
  readonly out?: string;
};

export type MergeRunResult = MergedRun & {
  /** As it was given or made. */
  readonly folder: string;
};

/**
 * Writes the episodes that count, in the order of the index, into a new run folder without shards: for programs that read
 * `episodes.jsonl` themselves, and to copy a run as a few files. Readers of this package need no merge. Resolves with `null` when the
 * signal stopped it. Rejects with a `ConfigurationError` for a run without shards, for one in progress, and where a line is not what
 * was written; no folder is made then. Journals of episodes in flight are left behind: a merged run that is resumed begins them again.
 *
 * @example
 * const merged = await mergeRun({ run: "runs/large", out: "runs/large-merged" });
 */
export async function mergeRun({
  run,
  out = `${run.replace(/(?<![/\\])[/\\]+$/, "")}-merged`,
  cwd = process.cwd(),
  signal,
}: MergeRunOptions): Promise<MergeRunResult | null> {
  const merged = await mergeShards(resolve(cwd, run), resolve(cwd, out), signal === undefined ? {} : { signal });
  return merged === null ? null : { folder: out, ...merged };
}
