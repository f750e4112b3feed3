// Makes the prepared layout of τ-bench in a folder, from a checkout that the user has or from a clone of the pinned commit.
// Not needed to run the environment, which reads a checkout just as well; a prepared folder is faster, and can be copied.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { cloneUpstream, type Upstream } from "./clone-upstream.ts";
import { readTauBenchCheckout } from "./read-checkout.ts";
import { upstreamCommit, upstreamUrl } from "./upstream.ts";
import { checkTarget, writeFolder } from "./write-folder.ts";

export type PrepareTauBenchOptions = {
  /** Folder of an upstream checkout. Default: the pinned commit is cloned with git into a temporary folder. */
  readonly from?: string;
  /** Folder that is made; it must not exist, or be empty. */
  readonly to: string;
  /** Is told what happens, in lines for people. Default: nobody. */
  readonly onProgress?: (line: string) => void;
  /** What is cloned without `from`. Default: upstream's repository, its pinned commit, `git`. */
  readonly upstream?: Partial<Upstream>;
  readonly signal?: AbortSignal;
};

export type PreparedTauBench = {
  /** Absolute. */
  readonly folder: string;
  /** Paths within the folder, with `/`. */
  readonly files: readonly string[];
  /** What was cloned; `null` when a checkout was given. */
  readonly commit: string | null;
};

/**
 * Writes the prepared layout: all files or none. Throws a `ConfigurationError` with the remedy when the target is not empty,
 * the checkout cannot be read (file and line are named), or nothing can be cloned.
 */
export async function prepareTauBench(options: PrepareTauBenchOptions): Promise<PreparedTauBench> {
  // Before anything is fetched or read.
  await checkTarget(options.to);
  if (options.from !== undefined) return prepareFrom(options.from, null, options);
  const upstream: Upstream = { url: upstreamUrl, commit: upstreamCommit, git: "git", ...options.upstream };
  const clone = await mkdtemp(join(tmpdir(), "tau-bench-"));
  try {
    options.onProgress?.(`Cloning ${upstream.url} at commit ${upstream.commit.slice(0, 12)} with git.`);
    await cloneUpstream(upstream, clone, options.signal);
    return await prepareFrom(clone, upstream.commit, options);
  } finally {
    await rm(clone, { recursive: true, force: true });
  }
}

async function prepareFrom(
  checkout: string,
  commit: string | null,
  { to, onProgress, signal }: PrepareTauBenchOptions,
): Promise<PreparedTauBench> {
  const files = await readTauBenchCheckout(checkout, {
    ...(onProgress === undefined ? {} : { onProgress }),
    ...(signal === undefined ? {} : { signal }),
  });
  const folder = await writeFolder(to, files);
  onProgress?.(`Wrote ${files.size} files to ${folder}.`);
  return { folder, files: [...files.keys()], commit };
}
