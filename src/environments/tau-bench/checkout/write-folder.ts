// A folder that appears with all of its files, or not at all: it is written beside its place and renamed. Whoever kills the
// process halfway leaves a folder with another name, never half of the wanted one.

import { lstat, mkdir, mkdtemp, readdir, realpath, rename, rm, rmdir, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";

import { ConfigurationError } from "../../../core/index.ts";

/**
 * The absolute path of a folder that may be written: it does not exist, or it is empty. Throws a `ConfigurationError`
 * otherwise.
 */
export async function checkTarget(folder: string): Promise<string> {
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
export async function writeFolder(folder: string, files: ReadonlyMap<string, string>): Promise<string> {
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
    await removeEmptyFolder(target);
    await rename(written, target);
    return target;
  } catch (error) {
    throw explain(error, folder);
  } finally {
    if (scratch !== null) await rm(scratch, { recursive: true, force: true });
  }
}

/** Not every platform renames onto an empty folder. */
async function removeEmptyFolder(folder: string): Promise<void> {
  try {
    await rmdir(folder);
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
  }
}

async function isLink(path: string): Promise<boolean> {
  try {
    return (await lstat(path)).isSymbolicLink();
  } catch {
    return false;
  }
}

function explain(error: unknown, folder: string): unknown {
  const code = codeOf(error);
  if (error instanceof ConfigurationError || code === null) return error;
  const isTaken = code === "ENOTEMPTY" || code === "EEXIST";
  const reason = error instanceof Error ? error.message : String(error);
  return cannotWrite(folder, isTaken ? "somebody else has written to it meanwhile" : reason);
}

const codeOf = (error: unknown): unknown => (error instanceof Error && "code" in error ? error.code : null);

const cannotWrite = (folder: string, problem: string): ConfigurationError =>
  new ConfigurationError(
    `Cannot prepare τ-bench in "${folder}": ${problem}, a new or empty folder is wanted; name another with --to <folder>.`,
  );
