// `npm run check -- files`: rules for every tracked file. It is small enough to read in one go, has
// a header that describes it, and contains nothing that is true only on one machine: its paths, and
// the registry it installs from. Objects are written out. package.json has no script that npm runs
// implicitly with another one.

import { existsSync, readFileSync, statSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";

import { parseSync } from "oxc-parser";

import { root, runCommand } from "../run-command.mjs";
import { findLockProblems } from "./lock.mjs";
import { findCoupledScripts, readManifest } from "./manifest.mjs";

const limits = {
  bytes: 1_000_000,
  /** Weights of one of our models: a million parameters of two bytes each. */
  weightBytes: 2_500_000,
  /**
   * Lines of a source file; tables and catalogues, which identify themselves in their header, may
   * be longer.
   */
  lines: 500,
};

/** Binary files that belong here; any other is the cache or the output of a tool. */
const binaryFiles = /\.(?:safetensors|eval|webp|parquet)$/;

/** @returns {Promise<{ problems: string[], summary: string }>} */
export async function checkFiles() {
  const { output } = await runCommand("git", ["ls-files", "--cached", "--others", "--exclude-standard"]);
  const files = output.split("\n").filter((file) => existsSync(join(root, file)));
  /** @type {string[]} */
  const problems = [];
  const machine = machinePaths();

  for (const file of files) {
    const { size } = statSync(join(root, file));
    const most = file.endsWith("/model.safetensors") ? limits.weightBytes : limits.bytes;
    if (size > most) problems.push(`${file} has ${size} bytes; ${most} is the most.`);
    const text = readFileSync(join(root, file), "utf8");
    for (const path of machine) {
      if (text.includes(path)) problems.push(`${file} contains "${path}", a path of this machine.`);
    }
    if (text.includes("\0") && !binaryFiles.test(file)) {
      problems.push(`${file} is a binary file; remove it, or name its kind in scripts/checks/files.mjs.`);
    }
    if (/\bregistry\.[\w-]+\.(?:org|com)/.test(text)) problems.push(`${file} names the host of a registry.`);
    if (/\.(?:ts|tsx|mjs)$/.test(file)) problems.push(...findGroups(file, text));
    if (/^src\/.*\.ts$/.test(file) && !/\.test(-helper)?\.ts$/.test(file)) {
      const lines = text.split("\n").length - 1;
      problems.push(...judgeSource(file, text, lines));
    }
  }

  problems.push(...findLockProblems(readFileSync(join(root, "package-lock.json"), "utf8")));
  problems.push(...findCoupledScripts(readManifest().scripts));
  return { problems, summary: `${files.length} files` };
}

/**
 * @param {string} file
 * @param {string} text
 * @param {number} lines
 */
function* judgeSource(file, text, lines) {
  const header = readHeader(file, text);
  if (header === null) yield `${file} has no header: say in a comment at its top what it is, what it is not, and why.`;
  if (lines > limits.lines && !/\b(table|catalogue)\b/i.test(header ?? "")) {
    yield `${file} has ${lines} lines; ${limits.lines} is the most for what is no table or catalogue.`;
  }
}

/**
 * Objects are written out: a literal that is spread into another hides its properties from the
 * compiler's checks.
 *
 * @param {string} file
 * @param {string} text
 */
function findGroups(file, text) {
  /** @type {string[]} */
  const problems = [];
  if (!/\.\.\.\s*\{/.test(text)) return problems;
  JSON.stringify(parseSync(file, text).program, (_, node) => {
    const { type, start, argument } = /** @type {{ type?: string, start: number, argument?: { type: string } }} */ (
      node ?? {}
    );
    if (type === "SpreadElement" && argument?.type === "ObjectExpression") {
      const line = text.slice(0, start).split("\n").length;
      problems.push(`${file}:${line} spreads an object literal; write its properties out.`);
    }
    return /** @type {unknown} */ (node);
  });
  return problems;
}

/**
 * The comment at the top, or before the first statement that is not an import (a contract's own
 * comment heads its file).
 *
 * @param {string} file
 * @param {string} text
 */
function readHeader(file, text) {
  const { program, comments } = parseSync(file, text);
  const [comment] = comments;
  const first = program.body.find((statement) => statement.type !== "ImportDeclaration");
  return comment !== undefined && (first === undefined || comment.start < first.start) ? comment.value : null;
}

/** Folders whose names are meaningful only on this machine. */
function machinePaths() {
  const parent = dirname(root);
  const paths = [root, homedir(), parent].filter((path) => path !== tmpdir() && basename(path) !== "");
  return paths.map((path) => `${path}/`);
}
