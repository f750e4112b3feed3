// Makes the prepared layout of a benchmark in a folder, from a checkout that the user has or from a clone of the pinned commit: all
// files or none. What the files are is for the benchmark's own reader.

import { mkdtemp, rm, lstat, mkdir, readdir, realpath, rename, rmdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, basename, dirname, resolve } from "node:path";

import { ConfigurationError, messageOf } from "../../core/index.ts";
import { codeOf } from "./checkout-files.ts";
import { cloneUpstream, type Upstream } from "./clone-upstream.ts";

/** Path in the prepared layout (with `/`) to the text of the file. */
export type PreparedFiles = ReadonlyMap<string, string>;

export type ReadOptions = {
  /** Receives what was found, in lines for people. @default reported nowhere */
  readonly onProgress?: (line: string) => void;
  readonly signal?: AbortSignal;
};

export type PrepareOptions = ReadOptions & {
  /** Folder of an upstream checkout. @default the pinned commit is cloned with git into a temporary folder */
  readonly from?: string;
  /** Folder that is made; it must not exist, or be empty. */
  readonly to: string;
  /** What is cloned without `from`. @default upstream's repository, its pinned commit, `git` */
  readonly upstream?: Partial<Upstream>;
};

export type PreparedFolder = {
  /** Absolute. */
  readonly folder: string;
  /** Paths within the folder, with `/`. */
  readonly files: readonly string[];
  /** What was cloned; `null` when a checkout was given. */
  readonly commit: string | null;
};

/** Reads every file of the prepared layout out of a checkout. Throws a `ConfigurationError` for what it cannot read. */
export type CheckoutReader = (checkout: string, options: ReadOptions) => Promise<PreparedFiles>;

/**
 * Writes the prepared layout: all files or none. Throws a `ConfigurationError` with the remedy when the target is not empty,
 * the checkout cannot be read (file and line are named), or nothing can be cloned.
 */
export async function prepareFolder(
  options: PrepareOptions,
  { pinned, read }: { readonly pinned: Upstream; readonly read: CheckoutReader },
): Promise<PreparedFolder> {
  const upstream: Upstream = { ...pinned, ...options.upstream };
  const { title } = upstream;
  // Before anything is fetched or read.
  await checkTarget(options.to, title);
  const { from, to, onProgress, signal } = options;
  const prepare = async (checkout: string, commit: string | null): Promise<PreparedFolder> => {
    const files = await read(checkout, {
      ...(onProgress === undefined ? {} : { onProgress }),
      ...(signal === undefined ? {} : { signal }),
    });
    const folder = await writeFolder(to, files, title);
    onProgress?.(`Wrote ${files.size} files to ${folder}.`);
    return { folder, files: [...files.keys()], commit };
  };
  if (from !== undefined) return prepare(from, null);
  const clone = await mkdtemp(join(tmpdir(), "upstream-"));
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
async function checkTarget(folder: string, title: string): Promise<string> {
  try {
    const target = await realpath(folder);
    const entries = await readdir(target);
    if (entries.length === 0) return target;
    throw cannotWrite({ folder, title }, `it is not empty (it holds "${entries[0]}")`);
  } catch (error) {
    if (codeOf(error) === "ENOENT" && !(await isLink(folder))) return resolve(folder);
    if (codeOf(error) === "ENOENT") throw cannotWrite({ folder, title }, "it is a link to nothing");
    if (codeOf(error) === "ENOTDIR") throw cannotWrite({ folder, title }, "it is, or lies below, a file");
    throw explain(error, { folder, title });
  }
}

/** Writes all files (path with `/` to text, as UTF-8) at once. Throws a `ConfigurationError` when the target cannot take them. */
async function writeFolder(folder: string, files: PreparedFiles, title: string): Promise<string> {
  const target = await checkTarget(folder, title);
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
    throw explain(error, { folder, title });
  } finally {
    if (scratch !== null) await rm(scratch, { recursive: true, force: true });
  }
}

async function isLink(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => null))?.isSymbolicLink() === true;
}

type Target = { readonly folder: string; readonly title: string };

function explain(error: unknown, { folder, title }: Target): unknown {
  const code = codeOf(error);
  if (error instanceof ConfigurationError || code === null) return error;
  const isTaken = code === "ENOTEMPTY" || code === "EEXIST";
  return cannotWrite({ folder, title }, isTaken ? "another process has written to it meanwhile" : messageOf(error));
}

const cannotWrite = ({ folder, title }: Target, problem: string): ConfigurationError =>
  new ConfigurationError(
    `Cannot prepare ${title} in "${folder}": ${problem}, a new or empty folder is expected; name another with --to <folder>.`,
  );
