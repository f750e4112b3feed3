// Finds runs, trainings and logs of other tools below a folder. The folder may hold anything: what
// is read is bounded, cycles end, and everything that was left out is said. Synchronous calls take a
// quarter of the time of the others here, so they are made in short slices.

import { type Dirent, opendirSync, readdirSync, readFileSync, type Stats, statSync } from "node:fs";
import { join, sep } from "node:path";
import { setImmediate } from "node:timers/promises";
import { runFiles } from "../store/index.ts";

export type Found = {
  readonly path: string;
  /**
   * "log": a file or folder that another tool may have written, by its name. "other": a folder with
   * a run.json of another program, which may also hold logs.
   */
  readonly kind: "run" | "training" | "log" | "other";
  /** The run.json of a run as it was found; `null` if it has none, and for other kinds. */
  readonly manifest: Stats | null;
};

export type Walk = {
  readonly found: readonly Found[];
  /** Sentences that say what was left out. */
  readonly notes: readonly string[];
};

export type WalkLimits = {
  /** Folders that are opened. @default 20,000 */
  readonly folders?: number;
  /** Names that are read of one folder. @default 50,000 */
  readonly names?: number;
  /** Levels below the first folder. @default 12 */
  readonly depth?: number;
  /** Runs, trainings and logs. @default 10,000 */
  readonly found?: number;
};

/** Time for which files are read before other work gets a turn. */
const sliceMs = 5;

/** Largest run.json that is read to find out whose it is, in bytes; ours are smaller. */
const mostManifest = 4 << 20;

/**
 * True for a run.json that another program wrote: it has no number as its format. One that is not
 * JSON may be ours and half written.
 */
function isForeignManifest(file: string): boolean {
  try {
    const found = statSync(file);
    if (!found.isFile()) return false;
    if (found.size > mostManifest) return true;
    const facts = JSON.parse(readFileSync(file, "utf8")) as { readonly format?: unknown } | null;
    return typeof facts?.format !== "number";
  } catch {
    return false;
  }
}

/** True for a folder of a run of ours, or of what may become one. */
export function isRunFolder(folder: string): boolean {
  return fileAt(join(folder, runFiles.episodes)) !== null || ownManifest(folder + sep) !== null;
}

/** The run.json of a run of ours; `null` for any other folder. `at`: its path with a separator at its end. */
function ownManifest(at: string): Stats | null {
  const manifest = fileAt(at + runFiles.manifest);
  if (manifest === null || fileAt(at + runFiles.episodes) !== null) return manifest;
  return isForeignManifest(at + runFiles.manifest) ? null : manifest;
}

/** `null` for one that cannot be read, or is not a file. */
function fileAt(path: string): Stats | null {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    return found?.isFile() === true ? found : null;
  } catch {
    return null;
  }
}

/** Call after each piece of synchronous work: it pauses where a slice has ended. */
export function slices(): () => Promise<void> {
  let began = performance.now();
  return async () => {
    if (performance.now() - began < sliceMs) return;
    await setImmediate();
    began = performance.now();
  };
}

/** Size of a folder with about 20,000 names. */
const largeFolder = 1 << 20;
const skipped = new Set(["node_modules", "__pycache__", "site-packages"]);

type Place = { readonly path: string; readonly depth: number };

/** Rejects with the system's error only if the first folder cannot be read. */
export async function walkRuns(root: string, limits: WalkLimits = {}): Promise<Walk> {
  const { folders = 20_000, names: mostNames = 50_000, depth: mostDepth = 12, found: mostFound = 10_000 } = limits;
  const found: Found[] = [];
  const notes = new Set<string>();
  const unreadable: string[] = [];
  /** Real folders come before links, so that a run is listed under its own name. */
  let queue: Place[] = [{ path: root, depth: 0 }];
  let links: Place[] = [];
  const seen = new Set<string>();
  /** Runs that are not in `seen`: which folders they are matters only once links are followed. */
  const unseen: string[] = [];
  let isLinked = false;
  let opened = 0;

  const add = (path: string, kind: Found["kind"], manifest: Stats | null = null): void =>
    void found.push({ path, kind, manifest });
  const visit = ({ path, depth }: Place): void => {
    let content: Content;
    const at = path.endsWith(sep) ? path : path + sep;
    // A run is recognised without the names in its folder.
    const manifest = ownManifest(at);
    if (manifest !== null && !isLinked) {
      unseen.push(path);
      return add(path, "run", manifest);
    }
    try {
      // A link leads to the folder itself, which may be known.
      const { dev, ino, size } = statSync(path);
      const name = `${dev}:${ino}`;
      if (seen.has(name)) return;
      seen.add(name);
      if (manifest !== null) return add(path, "run", manifest);
      content = contentOf(path, { most: mostNames, size });
    } catch (error) {
      if (depth === 0) throw error;
      unreadable.push(path);
      return;
    }
    if (content.isCut) notes.add(`Only the first ${mostNames.toLocaleString("en")} names of "${path}" were read.`);
    const { files } = content;
    if (files.has(runFiles.episodes)) return add(path, "run");
    if (files.has("train.json")) return add(path, "training");
    if (files.has("results.json") && content.folders.includes("simulations")) {
      return add(path, "log");
    }
    if (files.has(runFiles.manifest)) add(path, "other");
    for (const name of files) {
      if (found.length >= mostFound) break;
      if (/\.(?:jsonl?|eval)$/.test(name)) add(at + name, "log");
    }
    if (depth >= mostDepth) {
      if (content.folders.length > 0) notes.add(`Folders more than ${mostDepth} levels down were not searched.`);
      return;
    }
    const below = (name: string): Place => ({ path: at + name, depth: depth + 1 });
    // One more than may be opened, so that the limit is noticed.
    const room = Math.max(0, folders - opened - (queue.length - next));
    for (const name of content.folders.slice(0, room)) queue.push(below(name));
    for (const name of content.links.slice(0, Math.max(0, folders - links.length))) links.push(below(name));
  };

  const pause = slices();
  let next = 0;
  for (; opened < folders && found.length < mostFound; opened++) {
    if (next === queue.length) {
      queue = linkedFolders(links);
      [links, next] = [[], 0];
      if (queue.length === 0) break;
      isLinked = true;
      for (const run of unseen.splice(0)) seen.add(identityOf(run));
    }
    visit(queue[next++]!);
    await pause();
  }
  if (next < queue.length && opened >= folders) {
    notes.add(`Only the first ${folders.toLocaleString("en")} folders were searched; name a folder further down.`);
  }
  if (found.length >= mostFound) {
    notes.add(`Only the first ${mostFound.toLocaleString("en")} runs are listed; name a folder further down.`);
  }
  const [first] = unreadable;
  if (first !== undefined) {
    const more = unreadable.length === 1 ? "" : ` and ${unreadable.length - 1} more`;
    notes.add(`"${first}"${more} could not be read.`);
  }
  return { found: found.slice(0, mostFound), notes: [...notes].slice(0, 20) };
}

/** The same name for a folder however it is reached; the path of one that is gone. */
function identityOf(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false });
  return found === undefined ? path : `${found.dev}:${found.ino}`;
}

type Content = {
  readonly files: ReadonlySet<string>;
  readonly folders: readonly string[];
  readonly links: readonly string[];
  readonly isCut: boolean;
};

/** `size`: the folder's own, in bytes, which grows with its names. */
function contentOf(path: string, { most, size }: { readonly most: number; readonly size: number }): Content {
  const entries = size > largeFolder ? firstEntries(path, most + 1) : readdirSync(path, { withFileTypes: true });
  const files = new Set<string>();
  const [folders, links]: [string[], string[]] = [[], []];
  for (const entry of entries.slice(0, most)) {
    const { name } = entry;
    if (entry.isFile()) files.add(name);
    else if (name.startsWith(".") || skipped.has(name)) continue;
    else if (entry.isDirectory()) folders.push(name);
    else if (entry.isSymbolicLink()) links.push(name);
  }
  return { files, folders, links, isCut: entries.length > most };
}

/** Reads no more than these, and takes three times as long for each. */
function firstEntries(path: string, most: number): Dirent[] {
  const folder = opendirSync(path, { bufferSize: 256 });
  try {
    const entries: Dirent[] = [];
    for (let entry = folder.readSync(); entry !== null && entries.length < most; entry = folder.readSync()) {
      entries.push(entry);
    }
    return entries;
  } finally {
    folder.closeSync();
  }
}

function linkedFolders(links: readonly Place[]): Place[] {
  return links.filter(({ path }) => {
    try {
      return statSync(path).isDirectory();
    } catch {
      // A link that leads nowhere, or in a circle.
      return false;
    }
  });
}
