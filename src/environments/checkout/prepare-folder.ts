// Creates the prepared layout of a benchmark in a folder, from the user's checkout or from a clone
// of the pinned commit: all files or none. The content of the files is up to the benchmark's own
// reader.

import { execFile } from "node:child_process";
import { lstat, mkdtemp, readdir, readFile, realpath, rename, rm, rmdir, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve, sep } from "node:path";
import { promisify } from "node:util";
import { makeFolder } from "../../system/make-folder.ts";

import { ConfigurationError, messageOf } from "../../core/index.ts";
import { parsePython, type PythonSource } from "./python-source.ts";

/** Text of each file by its path in the prepared layout (with `/`). */
export type PreparedFiles = ReadonlyMap<string, string>;

export type ReadOptions = {
  /** Receives progress lines for people. @default not reported */
  readonly onProgress?: (line: string) => void;
  readonly signal?: AbortSignal;
};

export type PrepareOptions = ReadOptions & {
  /** Folder of an upstream checkout. @default the pinned commit is cloned with git into a temporary folder */
  readonly from?: string;
  /** Folder to create; it must not exist, or be empty. */
  readonly to: string;
  /**
   * The repository to clone if `from` is not given. @default upstream's repository, its pinned
   * commit, `git`
   */
  readonly upstream?: Partial<Upstream>;
};

export type PreparedFolder = {
  /** Absolute path. */
  readonly folder: string;
  /** Paths within the folder, with `/`. */
  readonly files: readonly string[];
  /** The cloned commit; `null` if a checkout was given. */
  readonly commit: string | null;
};

/**
 * Reads every file of the prepared layout from a checkout. Throws a `ConfigurationError` for
 * content that it cannot read.
 */
export type CheckoutReader = (checkout: string, options: ReadOptions) => Promise<PreparedFiles>;

/**
 * Writes the prepared layout: all files or none. Throws a `ConfigurationError` with the remedy if
 * the target is not empty, the checkout cannot be read (the message names file and line), or the
 * clone fails.
 */
export async function prepareFolder(
  options: PrepareOptions,
  { pinned, read }: { readonly pinned: Upstream; readonly read: CheckoutReader },
): Promise<PreparedFolder> {
  const upstream: Upstream = { ...pinned, ...options.upstream };
  const { title } = upstream;
  // Checked before anything is fetched or read.
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
 * The absolute path of a folder that may be written: it does not exist, or it is empty. Throws a
 * `ConfigurationError` otherwise.
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

/**
 * Writes all files (path with `/` to text, as UTF-8) at once. Throws a `ConfigurationError` if the
 * target cannot be written.
 */
async function writeFolder(folder: string, files: PreparedFiles, title: string): Promise<string> {
  const target = await checkTarget(folder, title);
  let scratch: string | null = null;
  try {
    await makeFolder(dirname(target));
    scratch = await mkdtemp(join(dirname(target), `.${basename(target)}.partial-`));
    // A subfolder of its own: the scratch folder is closed to other users, the written one has the
    // mode of any new folder.
    const written = join(scratch, "files");
    for (const [path, text] of files) {
      const file = join(written, ...path.split("/"));
      await makeFolder(dirname(file));
      await writeFile(file, text, "utf8");
    }
    // Not every platform can rename onto an empty folder.
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
  return cannotWrite(
    { folder, title },
    isTaken ? "another process has written to it in the meantime" : messageOf(error),
  );
}

const cannotWrite = ({ folder, title }: Target, problem: string): ConfigurationError =>
  new ConfigurationError(
    `Cannot prepare ${title} in "${folder}": ${problem}, expected a new or empty folder; name another with --to <folder>.`,
  );

// Reads files of an upstream checkout as data. Others wrote this content, so links out of the
// checkout, folders in place of files, files without end and bytes that are not text are refused by
// name.

/** Size limit. The largest upstream file has 14 MB. */
const maxBytes = 64_000_000;

/**
 * An error about a place in a checkout: `problem` is the fault, without a full stop; `remedy` is
 * the advice.
 */
export function cannotRead(place: string, problem: string, remedy: string, cause?: unknown): ConfigurationError {
  return new ConfigurationError(`Cannot read ${place}: ${problem}; ${remedy}.`, { cause });
}

/** Reads a text file of a checkout. Throws a `ConfigurationError` that names the file and the fault. */
export async function readCheckoutFile(folder: string, path: string, remedy: string): Promise<string> {
  const text = await readCheckoutFileIfAny(folder, path, remedy);
  if (text === null) throw cannotRead(`"${path}" of the checkout "${folder}"`, "there is no such file", remedy);
  return text;
}

/** Maximum number of files of a folder; upstream's largest has 698. */
const mostFiles = 20_000;

/**
 * Names of the files of a folder of a checkout that match a pattern, by code point. Throws a
 * `ConfigurationError` that names the folder and the fault.
 */
export async function listCheckoutFiles(
  folder: string,
  path: string,
  { pattern, remedy }: { readonly pattern: RegExp; readonly remedy: string },
): Promise<string[]> {
  const refuse = (problem: string): ConfigurationError =>
    cannotRead(`"${path}" of the checkout "${folder}"`, problem, remedy);
  let names: string[];
  try {
    const root = await realpath(folder);
    const place = await realpath(join(root, path));
    if (!place.startsWith(root.endsWith(sep) ? root : root + sep)) {
      throw refuse("it is a link that leads out of the checkout");
    }
    names = await readdir(place);
  } catch (error) {
    if (error instanceof ConfigurationError) throw error;
    throw refuse(codeOf(error) === "ENOENT" ? "there is no such folder" : messageOf(error));
  }
  if (names.length > mostFiles) throw refuse(`it has ${names.length} files, ${mostFiles} is the most`);
  return names.filter((name) => pattern.test(name)).sort();
}

/** Same as {@link readCheckoutFile}, but returns `null` if the file does not exist. */
export async function readCheckoutFileIfAny(folder: string, path: string, remedy: string): Promise<string | null> {
  const refuse = (problem: string, cause?: unknown): ConfigurationError =>
    cannotRead(`"${path}" of the checkout "${folder}"`, problem, remedy, cause);
  let bytes: Uint8Array;
  try {
    const root = await realpath(folder);
    const file = await realpath(join(root, path));
    if (!file.startsWith(root.endsWith(sep) ? root : root + sep)) {
      throw refuse("it is a link that leads out of the checkout");
    }
    const stats = await stat(file);
    if (!stats.isFile()) throw refuse("it is not a file");
    if (stats.size > maxBytes) throw refuse(`it has ${stats.size} bytes, ${maxBytes} is the most`);
    bytes = await readFile(file);
  } catch (error) {
    if (error instanceof ConfigurationError) throw error;
    const code = codeOf(error);
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw refuse(messageOf(error), error);
  }
  try {
    // The byte order mark is kept, so that a copy has the same bytes.
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    throw refuse("it is not valid UTF-8", error);
  }
}

/** True if a folder has a file at this path; false if the folder does not exist. */
export async function hasFile(folder: string, path: string): Promise<boolean> {
  try {
    return (await stat(join(folder, path))).isFile();
  } catch {
    return false;
  }
}

/** Code of a system error; `null` for any other error. */
export const codeOf = (error: unknown): unknown => (error instanceof Error && "code" in error ? error.code : null);

// One commit of an upstream repository, cloned with git into a folder. The commit's name fixes its
// content, regardless of the server.

export type Upstream = {
  /** Title of the benchmark, for messages. */
  readonly title: string;
  /** Any address that `git fetch` accepts. */
  readonly url: string;
  /** Full hash of the commit, which fixes its content, regardless of the server. */
  readonly commit: string;
  /** The git program to run. */
  readonly git: string;
};

const run = promisify(execFile);

/**
 * Clones into an empty folder. Throws a `ConfigurationError` with the remedy if git or the commit
 * is not available.
 */
async function cloneUpstream(upstream: Upstream, folder: string, signal?: AbortSignal): Promise<void> {
  const git = async (...parameters: readonly string[]): Promise<void> => {
    try {
      await run(upstream.git, ["-C", folder, ...parameters], {
        env: gitEnvironment(),
        windowsHide: true,
        maxBuffer: 16_000_000,
        ...(signal === undefined ? {} : { signal }),
      });
    } catch (error) {
      signal?.throwIfAborted();
      throw explainClone(error, upstream);
    }
  };
  await git("init", "--quiet");
  await git(...patience, "fetch", "--quiet", "--no-tags", "--depth", "1", upstream.url, upstream.commit);
  // Files keep their bytes, regardless of platform and user settings.
  await git("-c", "core.autocrlf=false", "-c", "core.eol=lf", "checkout", "--quiet", "--detach", "FETCH_HEAD");
}

/** A connection that transfers less than 1 kB/s for 30 s is dropped. */
const patience = ["-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=30"];

/** The environment for git, without the variables that a calling git sets for its own repository. */
const gitEnvironment = (): NodeJS.ProcessEnv => ({
  ...process.env,
  GIT_DIR: undefined,
  GIT_WORK_TREE: undefined,
  GIT_INDEX_FILE: undefined,
  GIT_TERMINAL_PROMPT: "0",
  LC_ALL: "C",
});

function explainClone(error: unknown, { title, url, commit, git }: Upstream): ConfigurationError {
  const beginning = `Cannot clone ${title} from "${url}" at commit ${commit.slice(0, 12)}:`;
  const remedy = "clone it where you can, and name the folder with --from <checkout>";
  if (codeOf(error) === "ENOENT") {
    return new ConfigurationError(`${beginning} there is no program "${git}"; install git, or ${remedy}.`, {
      cause: error,
    });
  }
  const said = error instanceof Error && "stderr" in error ? String(error.stderr) : String(error);
  const reason = said.trim().split("\n").slice(-3).join(" ").slice(-400);
  return new ConfigurationError(
    `${beginning} git gave up (${reason || "no error output"}); check the network, or ${remedy}.`,
    { cause: error },
  );
}

// A pinned commit of an upstream repository for its readers: where it is cloned from, and the
// remedy for a source that cannot be read. A checkout of another commit is accepted as long as its
// files still have the same structure.

type PinnedUpstream = {
  readonly upstream: Upstream;
  /** Remedy for a source that cannot be read, as the end of a sentence. */
  readonly checkoutRemedy: string;
  /** Parses an upstream source, given its path within the checkout. */
  readonly parseSource: (file: string, content: string) => PythonSource;
};

/** `commit`: the commit whose sources the readers are known to understand, and which is cloned. */
export function pinUpstream(pinned: Pick<Upstream, "title" | "url" | "commit">): PinnedUpstream {
  const checkoutRemedy = `take the sources of commit ${pinned.commit.slice(0, 12)}`;
  return {
    upstream: { ...pinned, git: "git" },
    checkoutRemedy,
    parseSource: (file, content) => parsePython(file, content, checkoutRemedy),
  };
}
