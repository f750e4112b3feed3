// Finds the data to which goldens refer (tables, tokenizers, templates). Lenient, because golden
// folders are copied around: the data may be named by `--data`, be beside the goldens, or in the
// shared folder. Not a loader.

import { existsSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

import { ConfigurationError } from "#src/core/index.ts";
import { repositoryRoot } from "./shared-folder.ts";

export type FindDataOptions = {
  /** Value of `--data`; `null` if absent. If given, no other folder is searched. */
  readonly data: string | null;
  /** Folder of the golden files; its neighbours are searched. */
  readonly goldens: string;
  /** Paths that the right folder contains; the first folder that has all of them is used. */
  readonly mustContain: readonly string[];
};

/**
 * The folder of one kind of data (`tau-bench`, `models`): the named folder, or one beside the
 * goldens, or `../shared/<kind>`.
 *
 * Throws a `ConfigurationError` that lists every place searched if none fits.
 */
export function findData(kind: string, options: FindDataOptions): string {
  const places = [...new Set(candidates(kind, options))];
  const found = places.find((place) => isDataFolder(place, options.mustContain));
  if (found !== undefined) return found;
  const wanted = options.mustContain.map((path) => `"${path}"`).join(", ");
  throw new ConfigurationError(
    `Cannot find the ${kind} data for the goldens in "${options.goldens}": no folder with ${wanted} among ` +
      `${places.map((place) => `"${place}"`).join(", ")}; name it with --data <folder>.`,
  );
}

function candidates(kind: string, options: FindDataOptions): string[] {
  if (options.data !== null) {
    const named = resolve(options.data);
    return [named, join(named, kind)];
  }
  const goldens = resolve(options.goldens);
  const beside = dirname(goldens);
  return [
    goldens,
    join(goldens, kind),
    beside,
    join(beside, kind),
    join(dirname(beside), kind),
    join(repositoryRoot(), "..", "shared", kind),
  ];
}

function isDataFolder(folder: string, mustContain: readonly string[]): boolean {
  return (
    existsSync(folder) && statSync(folder).isDirectory() && mustContain.every((path) => existsSync(join(folder, path)))
  );
}
