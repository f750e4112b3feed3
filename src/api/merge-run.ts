// mergeRun(): writes a run whose episodes are in shards as a folder in the layout of a single
// process.

import { resolve } from "node:path";
import { type MergedRun, mergeShards } from "../store/index.ts";
import type { CallOptions } from "./options.ts";

/** Options of {@link mergeRun}: the flags of the command `merge` in camelCase. */
export type MergeRunOptions = Pick<CallOptions, "cwd" | "signal"> & {
  /** Run folder with shards. It is not changed. */
  readonly run: string;
  /** Folder to create; must not exist. @default `<run>-merged` */
  readonly out?: string;
};

export type MergeRunResult = MergedRun & {
  /** The given or generated path of the folder. */
  readonly folder: string;
};

/** The public function of this name: `functions.ts`. */
export async function mergeRun({
  run,
  out = `${run.replace(/(?<![/\\])[/\\]+$/, "")}-merged`,
  cwd = process.cwd(),
  signal,
}: MergeRunOptions): Promise<MergeRunResult | null> {
  const merged = await mergeShards(resolve(cwd, run), resolve(cwd, out), signal === undefined ? {} : { signal });
  return merged === null ? null : { folder: out, ...merged };
}
