// Writes descriptions of settings into the declarations of the build. The types of options are
// derived from the tables of settings, so that a setting is written once; from here editors show
// its help, check and default.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { root } from "./run-command.mjs";

/** @typedef {{ readonly flag: string, readonly help: string, readonly expected: string, readonly default: unknown, readonly group: string }} Setting */

const tables = [
  "rollout-settings",
  "engines",
  "environments",
  "eval-settings",
  "train-settings",
  "serve",
  "gateway",
  "env-server",
  "audit-environment",
  "view",
  "work",
];

/**
 * Property of a table in a declaration file: ` readonly maxTurns:
 * import("../parts/setting.ts").Setting<number>;`.
 */
const property = /^( +)(?:readonly )?(\w+): import\("\.\.?\/(?:parts\/)?setting\.ts"\)\.Setting</;

/** Does nothing if the declarations have the descriptions already. */
export async function documentSettings() {
  for (const name of tables) {
    const path = join(root, "dist", "api", `${name}.d.ts`);
    const text = readFileSync(path, "utf8");
    if (undocumentedSettings(text).length === 0) continue;
    const module = /** @type {Readonly<Record<string, unknown>>} */ (await import(`../dist/api/${name}.js`));
    let table = "";
    const lines = text.split("\n").flatMap((line, at, before) => {
      table = /declare const (\w+): /.exec(line)?.[1] ?? table;
      const [, indent = "", key = ""] = property.exec(line) ?? [];
      // The rows of a registry are not exported; the table of all their options is.
      const known = [module[table], module["engineOptions"], module["environmentOptions"]];
      const setting = known
        .map((one) => /** @type {Readonly<Record<string, Setting>> | undefined} */ (one)?.[key])
        .find((one) => one?.help !== undefined);
      return setting === undefined || isComment(before[at - 1]) ? [line] : [indent + comment(setting), line];
    });
    writeFileSync(path, lines.join("\n"));
  }
}

/**
 * The settings of a declaration file that have no description.
 *
 * @param {string} declarations
 */
export function undocumentedSettings(declarations) {
  return declarations.split("\n").flatMap((line, at, before) => {
    const [, , key] = property.exec(line) ?? [];
    return key === undefined || isComment(before[at - 1]) ? [] : [key];
  });
}

/** @param {string | undefined} line */
function isComment(line) {
  return line?.endsWith("*/") === true;
}

/** @param {Setting} setting */
function comment({ group, flag, help, expected, default: value }) {
  const shown = value === null ? "" : ` @default ${JSON.stringify(value)}`;
  return `/** ${group}: ${help}. Takes ${expected.replace(/,$/, "")}; flag \`${flag}\`.${shown} */`;
}
