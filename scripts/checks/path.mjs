// `npm run check -- path`: the amount of code between a command and an episode. One canonical
// rollout runs with V8's coverage; the code that it loads and executes is compared with budgets, as
// are the closures of some public entries. Budgets may only fall: a change that needs less lowers
// them in the same commit.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, normalize, sep } from "node:path";
import { fileURLToPath } from "node:url";

import { root, runCommand } from "../run-command.mjs";
import { readImports } from "./directions/read-imports.mjs";

/**
 * Budgets of the rollout: files of dist/ that are loaded, and their lines of code; files in which a
 * function runs, and lines that run in functions.
 */
const rolloutBudgets = { modules: 220, lines: 23_840, entered: 160, executed: 8_990 };

/** Maximum number of files that an entry loads when it is imported. */
const closureBudgets = {
  "index.ts": 81,
  // It has the list of runs below a folder, too: nine files.
  "api/view.ts": 140,
  "tokenizers/index.ts": 50,
  "rollout/episode/run-episode.ts": 36,
};

/**
 * The reading lists of docs/how-it-works.md: one episode, and a rollout, which adds its own files
 * to those of the first list.
 */
const readingBudgets = [
  { what: "an episode", files: 14, lines: 2600 },
  { what: "a rollout", files: 30, lines: 6500 },
];

/** A budget that exceeds the figure by more than this share of it must be lowered. */
const slack = 0.03;

const rollout = ["--env", "bookshop", "--engine", "expert", "--tasks", "0", "--group-size", "1", "--write-samples"];

/** @returns {Promise<{ problems: string[], summary: string }>} */
export async function checkPath() {
  const figures = await measureRollout();
  const closures = Object.keys(closureBudgets).map((entry) => /** @type {const} */ ([entry, closureOf(entry).size]));
  const problems = [
    ...compare("The rollout's", figures, rolloutBudgets),
    ...compare("The closure of", Object.fromEntries(closures), closureBudgets),
    ...judgeReading(),
  ];
  const { modules, lines, entered, executed } = figures;
  const summary = `${modules} modules with ${lines} lines of code loaded, ${entered} entered, ${executed} lines executed`;
  return { problems, summary };
}

/**
 * @param {string} what
 * @param {Readonly<Record<string, number>>} figures
 * @param {Readonly<Record<string, number>>} budgets
 */
function* compare(what, figures, budgets) {
  for (const [name, budget] of Object.entries(budgets)) {
    const figure = figures[name] ?? 0;
    if (figure > budget)
      yield `${what} ${name}: ${figure}, the budget is ${budget}; import what is not needed at once where it is used.`;
    else if (budget > figure * (1 + slack))
      yield `${what} ${name}: ${figure}, and the budget is still ${budget}; lower it.`;
  }
}

/**
 * The numbering continues from one list to the next; a list begins at a number whose preceding line
 * has none.
 */
function* judgeReading() {
  const [, page = ""] = readFileSync(join(root, "docs", "how-it-works.md"), "utf8").split("\n## Reading the code\n");
  const lists = page.split(/\n(?!\d)[^\n]*\n\n(?=\d+\. )/).map((list) => [...list.matchAll(/^\d+\. `([^`]+)`/gm)]);
  const parts = lists.filter((list) => list.length > 0).map((list) => list.map(([, file = ""]) => file));
  if (parts.length !== readingBudgets.length)
    yield `docs/how-it-works.md has ${parts.length} reading lists, not ${readingBudgets.length}.`;
  for (const [index, budget] of readingBudgets.entries()) {
    const files = parts.slice(0, index + 1).flat();
    const lines = files.reduce((sum, file) => sum + readFileSync(join(root, file), "utf8").split("\n").length - 1, 0);
    if (files.length <= budget.files && lines <= budget.lines) continue;
    yield `The reading list of ${budget.what} has ${files.length} files with ${lines} lines; ${budget.files} with ${budget.lines} is the most.`;
  }
}

/** @returns {Promise<{ modules: number, lines: number, entered: number, executed: number }>} */
async function measureRollout() {
  const folder = mkdtempSync(join(tmpdir(), "path-"));
  try {
    const coverage = join(folder, "coverage");
    const command = [join(root, "dist", "cli", "main.js"), "rollout", ...rollout, "--out", join(folder, "run")];
    // The rollout looks for viewers that run on this machine; their number must not count.
    const env = { ...process.env, NODE_V8_COVERAGE: coverage, TRAINABLE_AGENTS_CACHE: folder };
    const { code, output } = await runCommand(process.execPath, command, { cwd: folder, env });
    if (code !== 0) throw new Error(`Cannot measure the path: the rollout ended with code ${code}: ${output}`);
    const total = { modules: 0, lines: 0, entered: 0, executed: 0 };
    for (const file of readdirSync(coverage)) {
      const { result } = /** @type {{ readonly result: readonly Script[] }} */ (
        JSON.parse(readFileSync(join(coverage, file), "utf8"))
      );
      for (const script of result) {
        if (!script.url.startsWith("file:")) continue;
        const path = fileURLToPath(script.url);
        if (!path.startsWith(join(root, "dist") + sep)) continue;
        const { lines, executed } = measureScript(readFileSync(path, "utf8"), script.functions);
        total.modules++;
        total.lines += lines;
        total.executed += executed;
        if (executed > 0) total.entered++;
      }
    }
    return total;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * V8's coverage report of a script.
 *
 * @typedef {{ readonly startOffset: number, readonly endOffset: number, readonly count: number }} Range
 * @typedef {{ readonly url: string, readonly functions: readonly { readonly ranges: readonly Range[] }[] }} Script
 */

/**
 * @param {string} text
 * @param {readonly { readonly ranges: readonly Range[] }[]} functions Functions in V8's order: nested ones after those that contain them.
 */
function measureScript(text, functions) {
  const counts = new Int32Array(text.length);
  const isInFunction = new Uint8Array(text.length);
  for (const { ranges } of functions) {
    const [whole] = ranges;
    const isModule = whole !== undefined && whole.startOffset === 0 && whole.endOffset >= text.length - 1;
    if (whole !== undefined && !isModule) isInFunction.fill(1, whole.startOffset, whole.endOffset);
    for (const { startOffset, endOffset, count } of ranges) counts.fill(count, startOffset, endOffset);
  }
  let [lines, executed] = [0, 0];
  let start = 0;
  for (const line of text.split("\n")) {
    const isCode = /\S/.test(line) && !/^\s*(?:\/\/|\/?\*)/.test(line);
    const runs = (/** @type {number} */ at) => isInFunction[at] === 1 && counts[at] !== 0 && /\S/.test(text[at] ?? "");
    if (isCode) lines++;
    if (isCode && Array.from(line, (_, at) => start + at).some(runs)) executed++;
    start += line.length + 1;
  }
  return { lines, executed };
}

/**
 * @param {string} entry Below src/.
 * @returns {Set<string>} The files that importing it loads.
 */
function closureOf(entry) {
  /** @type {Set<string>} */
  const seen = new Set();
  const open = [entry];
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    if (seen.has(file)) continue;
    seen.add(file);
    const source = readFileSync(join(root, "src", file), "utf8");
    for (const { specifier, isLoading } of readImports(file, source)) {
      if (isLoading && specifier !== null && specifier.startsWith("."))
        open.push(normalize(join(dirname(file), specifier)));
    }
  }
  return seen;
}
