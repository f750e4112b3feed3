// package.json, with the types of what the checks read from it.

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { root } from "../run-command.mjs";

/**
 * @typedef {object} Manifest
 * @property {string} name
 * @property {{ readonly node: string }} engines
 * @property {Readonly<Record<string, { readonly types: string, readonly default: string } | string>>} exports
 * @property {Readonly<Record<string, string>>} scripts
 * @property {Readonly<Record<string, string>>} dependencies
 * @property {Readonly<Record<string, string>>} devDependencies
 */

/** @returns {Manifest} */
export function readManifest() {
  return /** @type {Manifest} */ (JSON.parse(readFileSync(join(root, "package.json"), "utf8")));
}
