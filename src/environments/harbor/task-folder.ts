// Tasks as folders: `task.toml`, `instruction.md`, `environment/`, `tests/` and `solution/`. A folder
// is read as data of strangers: it has bounds, and links in it are never followed on this machine.

import { createHash } from "node:crypto";
import { lstatSync, readdirSync, readFileSync, readlinkSync, type Stats } from "node:fs";
import { basename, join, posix } from "node:path";
import { ConfigurationError, messageOf } from "../../core/failure.ts";
import { type Copy, readDockerfile } from "./dockerfile.ts";
import { readTaskFile, type TaskSettings } from "./task-file.ts";

export type HarborTask = TaskSettings & {
  /** Name of the folder. */
  readonly id: string;
  readonly folder: string;
  readonly instruction: string;
  readonly hasSolution: boolean;
  /** Absolute working folder inside the sandbox. */
  readonly workingFolder: string;
  readonly copies: readonly Copy[];
};

const mostTasks = 100_000;
const mostTextBytes = 1_000_000;
const mostFiles = 10_000;
const mostBytes = 64 * 1024 * 1024;
const defaultFolder = "/app";

/**
 * The tasks of a folder in the order of their names; a folder that is a task itself is one task.
 * Throws a `ConfigurationError` that names each file that cannot be read.
 */
export function readTasks(
  folder: string,
  options: { readonly variables: Readonly<Record<string, string | undefined>> },
): readonly HarborTask[] {
  const names = taskNames(folder);
  if (names.length > mostTasks) {
    throw new ConfigurationError(
      `Cannot read the Harbor tasks in "${folder}": there are ${names.length}, expected at most ${mostTasks}; divide the folder.`,
    );
  }
  return names.map((name) => {
    try {
      return readTask(name === null ? folder : join(folder, name), options);
    } catch (error) {
      throw new ConfigurationError(
        `Cannot read the Harbor task "${name ?? basename(folder)}" in "${folder}": ${messageOf(error).trim().replace(/\.$/, "")}; correct the task.`,
        { cause: error },
      );
    }
  });
}

/** Names of the folders that are tasks; one `null` if the folder itself is one. */
function taskNames(folder: string): readonly (string | null)[] {
  let entries: readonly string[];
  try {
    if (statIn(folder, "task.toml") !== null) return [null];
    entries = readdirSync(folder);
  } catch (error) {
    throw new ConfigurationError(
      `Cannot read Harbor tasks from "${folder}": ${messageOf(error)}; name a folder of tasks, like harbor:./tasks.`,
      { cause: error },
    );
  }
  const names = entries.filter((name) => statIn(join(folder, name), "task.toml") !== null);
  if (names.length > 0) return names.toSorted((left, right) => (left < right ? -1 : 1));
  throw new ConfigurationError(
    `Cannot read Harbor tasks from "${folder}": no folder in it has a task.toml; name the folder that contains the tasks' folders.`,
  );
}

/** Returns `null` for a missing entry. Links are not followed. */
function statIn(folder: string, name: string): Stats | null {
  try {
    return lstatSync(join(folder, name));
  } catch (error) {
    const { code } = error as { readonly code?: string };
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw error;
  }
}

function readTask(
  folder: string,
  options: { readonly variables: Readonly<Record<string, string | undefined>> },
): HarborTask {
  if (!lstatSync(folder).isDirectory()) throw new Error("it is not a folder");
  const settings = readTaskFile(readText(folder, "task.toml"), options);
  const refused = [...settings.refused];
  const isFolder = (name: string): boolean => {
    const found = statIn(folder, name);
    if (found !== null && !found.isDirectory()) throw new Error(`"${name}" is not a folder`);
    return found !== null;
  };
  if (statIn(folder, "trajectory.json") !== null) refused.push("trajectory.json");
  if (settings.refused.includes("[[steps]]")) {
    return { ...settings, ...emptyTask(folder) };
  }
  if (!isFolder("environment")) throw new Error('it has no folder "environment"');
  if (!isFolder("tests") || statIn(join(folder, "tests"), "test.sh") === null)
    throw new Error('it has no "tests/test.sh"');
  const environment = join(folder, "environment");
  for (const name of ["docker-compose.yaml", "docker-compose.yml", ".dockerignore"]) {
    if (statIn(environment, name) !== null) refused.push(`environment/${name}`);
  }
  const dockerfile = statIn(environment, "Dockerfile") === null ? "" : readText(environment, "Dockerfile");
  const { workdir, variables, copies, refused: instructions } = readDockerfile(dockerfile);
  for (const path of copies.flatMap(({ from }) => from)) requireInside(environment, path);
  return {
    ...settings,
    ...emptyTask(folder),
    instruction: readText(folder, "instruction.md"),
    hasSolution: isFolder("solution") && statIn(join(folder, "solution"), "solve.sh") !== null,
    workingFolder: settings.workdir ?? workdir ?? defaultFolder,
    copies,
    variables: { ...settings.variables, environment: { ...variables, ...settings.variables.environment } },
    refused: [...refused, ...instructions],
  };
}

/** The parts of a task that are known before the rest of its files is read. */
function emptyTask(folder: string): Omit<HarborTask, keyof TaskSettings> {
  return {
    id: basename(folder),
    folder,
    instruction: "",
    hasSolution: false,
    workingFolder: defaultFolder,
    copies: [],
  };
}

function readText(folder: string, name: string): string {
  const found = statIn(folder, name);
  if (found === null) throw new Error(`it has no "${name}"`);
  if (!found.isFile()) throw new Error(`"${name}" is not a regular file`);
  if (found.size > mostTextBytes)
    throw new Error(`"${name}" has ${found.size} bytes, expected at most ${mostTextBytes}`);
  return readFileSync(join(folder, name), "utf8");
}

/** Refuses a path that does not exist, or that passes through a link. */
function requireInside(environment: string, path: string): void {
  let at = environment;
  for (const part of posix
    .normalize(path)
    .split("/")
    .filter((one) => one !== "" && one !== ".")) {
    const found = statIn(at, part);
    if (found === null) throw new Error(`its Dockerfile copies "${path}", which does not exist`);
    if (found.isSymbolicLink()) throw new Error(`its Dockerfile copies "${path}", which is behind a link`);
    at = join(at, part);
  }
}

/**
 * SHA-256 (hex) of all files of a task: paths, kinds, permission to execute, contents. Throws a plain
 * error for a folder beyond the bounds, or with a pipe, a socket or a device.
 */
export function hashTask(folder: string): string {
  const hash = createHash("sha256");
  let files = 0;
  let bytes = 0;
  const add = (path: string): void => {
    const full = join(folder, path);
    const found = lstatSync(full);
    const entry = (kind: string, content: Buffer | string): void => {
      hash.update(`${kind} ${Buffer.byteLength(path)} ${Buffer.byteLength(content)} ${path}`).update(content);
    };
    files++;
    if (found.isFile()) bytes += found.size;
    if (files > mostFiles || bytes > mostBytes) {
      throw new Error(`its folder has more than ${mostFiles} files, or ${mostBytes} bytes`);
    }
    if (found.isDirectory()) {
      entry("folder", "");
      for (const name of readdirSync(full).toSorted((a, b) => (a < b ? -1 : 1))) add(posix.join(path, name));
    } else if (found.isFile()) {
      entry((found.mode & 0o100) === 0 ? "file" : "program", readFileSync(full));
    } else if (found.isSymbolicLink()) {
      entry("link", readlinkSync(full));
    } else {
      throw new Error(`"${path}" is neither a file, a folder nor a link`);
    }
  };
  add(".");
  return hash.digest("hex");
}
