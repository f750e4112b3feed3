// Locations of golden files. Those shared between projects are in the folder `shared` beside the
// repository, which a clone may lack: tests that need it are skipped then, except in a CI run. A
// smaller set that every clone has is in tests/goldens. Neither is part of the package.

import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * A folder or file below `../shared`, relative to the repository root; `null` if there is none.
 *
 * Throws instead of returning `null` if `CI=true` is set in the environment: a CI run that skips
 * goldens is a failure.
 */
export function sharedFolder(...parts: readonly string[]): string | null {
  const folder = join(repositoryRoot(), "..", "shared", ...parts);
  if (existsSync(folder)) return folder;
  if (process.env["CI"] === "true") {
    throw new Error(
      `Cannot find the golden files at "${join("..", "shared", ...parts)}": the folder does not exist and CI is "true"; ` +
        "put the shared folder beside the repository, or unset CI to skip what needs it.",
    );
  }
  return null;
}

/** The golden files of a suite ("parsers", "models") that every clone has; their provenance is in tests/goldens/README.md. */
export function committedGoldens(suite: string): string {
  return join(repositoryRoot(), "tests", "goldens", suite);
}

/**
 * The folder of our own package.json, found by searching upward, so that it is the same from `src/`
 * and from `dist/`.
 */
export function repositoryRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!isOurPackage(join(folder, "package.json"))) {
    const parent = dirname(folder);
    if (parent === folder) {
      throw new Error(`Cannot find the repository root: no package.json named "trainable-agents" above "${folder}".`);
    }
    folder = parent;
  }
  return folder;
}

function isOurPackage(file: string): boolean {
  if (!existsSync(file)) return false;
  const parsed: unknown = JSON.parse(readFileSync(file, "utf8"));
  return typeof parsed === "object" && parsed !== null && "name" in parsed && parsed.name === "trainable-agents";
}
