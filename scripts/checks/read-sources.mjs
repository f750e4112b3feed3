// The texts of a folder's sources, for checks that read code.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { root } from "../run-command.mjs";

/**
 * @param {string} folder Below the repository root; may be missing.
 * @param {string} extension
 * @returns {Map<string, string>} Path below the folder, with slashes, to text; in the order of the paths.
 */
export function readSources(folder, extension) {
  if (!existsSync(join(root, folder))) return new Map();
  const files = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .map((file) => file.replaceAll("\\", "/"))
    .filter((file) => file.endsWith(extension))
    .sort();
  return new Map(files.map((file) => [file, readFileSync(join(root, folder, file), "utf8")]));
}
