// Makes the prepared layout of τ-bench in a folder, from a checkout that the user has or from a clone of the pinned commit.
// Not needed to run the environment, which reads a checkout just as well; a prepared folder is faster, and can be copied.

import { mkdtemp, rm, lstat, mkdir, readdir, realpath, rename, rmdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, basename, dirname, resolve } from "node:path";

import { ConfigurationError, messageOf } from "../../../core/index.ts";
import { readTauBenchCheckout } from "./read-checkout.ts";
import { cloneUpstream, codeOf, type Upstream, upstreamCommit, upstreamUrl } from "./upstream.ts";

export type PrepareTauBenchOptions = {
  /** Folder of an upstream checkout. Default: the pinned commit is cloned with git into a temporary folder. */
  readonly from?: string;
  /** Folder that is made; it must not exist, or be empty. */
  readonly to: string;
  /** Receives what happens, in lines for people. Default: reported nowhere. */
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
  const { from, to, onProgress, signal } = options;
  const prepare = async (checkout: string, commit: string | null): Promise<PreparedTauBench> => {
    const files = await readTauBenchCheckout(checkout, {
      ...(onProgress === undefined ? {} : { onProgress }),
      ...(signal === undefined ? {} : { signal }),
    });
    const folder = await writeFolder(to, files);
    onProgress?.(`Wrote ${files.size} files to ${folder}.`);
    return { folder, files: [...files.keys()], commit };
  };
  if (from !== undefined) return prepare(from, null);
  const upstream: Upstream = { url: upstreamUrl, commit: upstreamCommit, git: "git", ...options.upstream };
  const clone = await mkdtemp(join(tmpdir(), "tau-bench-"));
  try {
    onProgress?.(`Cloning ${upstream.url} at commit ${upstream.commit.slice(0, 12)} with git.`);
    await cloneUpstream(upstream, clone, signal);
    return await prepare(clone, upstream.commit);
  } finally {
    await rm(clone, { recursive: true, force: true });
  }
}

/**
 * The absolute path of a folder that may be written: it does not exist, or it is empty. Throws a `ConfigurationError`
 * otherwise.
 */
async function checkTarget(folder: string): Promise<string> {
  try {
    const target = await realpath(folder);
    const entries = await readdir(target);
    if (entries.length === 0) return target;
    throw cannotWrite(folder, `it is not empty (it holds "${entries[0]}")`);
  } catch (error) {
    if (codeOf(error) === "ENOENT" && !(await isLink(folder))) return resolve(folder);
    if (codeOf(error) === "ENOENT") throw cannotWrite(folder, "it is a link to nothing");
    if (codeOf(error) === "ENOTDIR") throw cannotWrite(folder, "it is, or lies below, a file");
    throw explain(error, folder);
  }
}

/** Writes all files (path with `/` to text, as UTF-8) at once. Throws a `ConfigurationError` when the target cannot take them. */
async function writeFolder(folder: string, files: ReadonlyMap<string, string>): Promise<string> {
  const target = await checkTarget(folder);
  let scratch: string | null = null;
  try {
    await mkdir(dirname(target), { recursive: true });
    scratch = await mkdtemp(join(dirname(target), `.${basename(target)}.partial-`));
    // A folder of its own inside: the scratch folder is closed to others, the written one is as open as any new folder.
    const written = join(scratch, "files");
    for (const [path, text] of files) {
      const file = join(written, ...path.split("/"));
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, text, "utf8");
    }
    // Not every platform renames onto an empty folder.
    await rmdir(target).catch((error: unknown) => {
      if (codeOf(error) !== "ENOENT") throw error;
    });
    await rename(written, target);
    return target;
  } catch (error) {
    throw explain(error, folder);
  } finally {
    if (scratch !== null) await rm(scratch, { recursive: true, force: true });
  }
}

async function isLink(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => null))?.isSymbolicLink() === true;
}

function explain(error: unknown, folder: string): unknown {
  const code = codeOf(error);
  if (error instanceof ConfigurationError || code === null) return error;
  const isTaken = code === "ENOTEMPTY" || code === "EEXIST";
  return cannotWrite(folder, isTaken ? "another process has written to it meanwhile" : messageOf(error));
}

const cannotWrite = (folder: string, problem: string): ConfigurationError =>
  new ConfigurationError(
    `Cannot prepare τ-bench in "${folder}": ${problem}, a new or empty folder is expected; name another with --to <folder>.`,
  );
