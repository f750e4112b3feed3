// `node scripts/checks/same-syntax.mjs <revision>`: compares the syntax trees of the sources with
// those of an earlier revision. For changes of comments: each file that exists in both must have an
// equal syntax tree. Files that exist only in one are named.

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { parseSync } from "oxc-parser";

import { root, runCommand } from "../run-command.mjs";

const [revision = "HEAD"] = process.argv.slice(2);
const { output } = await runCommand("git", [
  "diff",
  "--name-status",
  "--no-renames",
  revision,
  "--",
  "*.ts",
  "*.tsx",
  "*.mjs",
]);
let same = 0;
const different = [];
for (const line of output.split("\n").filter((one) => one !== "")) {
  const [status = "", file = ""] = line.split("\t");
  if (status !== "M") {
    different.push(`${file} (${status})`);
    continue;
  }
  const before = await runCommand("git", ["show", `${revision}:${file}`]);
  const isSame = treeOf(file, before.output) === treeOf(file, readFileSync(join(root, file), "utf8"));
  if (isSame) same += 1;
  else different.push(file);
}
process.stdout.write(`${same} changed files with an equal syntax tree, ${different.length} others\n`);
for (const file of different) process.stdout.write(`  ${file}\n`);
process.exitCode = different.length === 0 ? 0 : 1;

/**
 * The tree without positions, as text.
 *
 * @param {string} file
 * @param {string} source
 */
function treeOf(file, source) {
  const { program, errors } = parseSync(file, source);
  if (errors.length > 0) throw new Error(`Cannot read "${file}": ${errors[0]?.message}.`);
  return JSON.stringify(program, (key, /** @type {unknown} */ value) =>
    key === "start" || key === "end" ? undefined : typeof value === "bigint" ? `${value}n` : value,
  );
}
