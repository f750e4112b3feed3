// package.json, with types for the fields that the checks read.

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
 * @property {Readonly<Record<string, string>>} peerDependencies
 * @property {Readonly<Record<string, string>>} devDependencies
 */

/** @returns {Manifest} */
export function readManifest() {
  return /** @type {Manifest} */ (JSON.parse(readFileSync(join(root, "package.json"), "utf8")));
}

/**
 * Scripts that npm itself runs when a package is packed, published or installed from a folder; they
 * are not typed by people.
 */
const lifecycleScripts = new Set(["prepack", "postpack", "prepare", "prepublishOnly"]);

/**
 * Scripts that npm runs implicitly: `npm run train` begins with a script "pretrain" and ends with
 * "posttrain".
 *
 * @param {Readonly<Record<string, unknown>>} scripts Scripts of package.json.
 * @returns {Iterable<string>}
 */
export function* findCoupledScripts(scripts) {
  for (const name of Object.keys(scripts)) {
    const [, place, other = ""] = /^(pre|post)(.+)$/.exec(name) ?? [];
    if (other in scripts && !lifecycleScripts.has(name)) {
      yield `package.json: npm runs the script "${name}" ${place === "pre" ? "before" : "after"} every "npm run ${other}": give it another name.`;
    }
  }
}
