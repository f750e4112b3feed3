// The commands that documentation prints: the real command line must accept each, and the files of
// the repository that it names must exist. `npm run verify -- commands` checks whether they do what
// the page says.

import { extractCommands } from "./extract.mjs";

/** @import { PrintedCommand } from "./extract.mjs" */

/**
 * @typedef {object} Repository
 * @property {(path: string, options?: { readonly isPrefix: boolean }) => boolean} exists
 * @property {ReadonlySet<string>} scripts Names of the scripts in package.json.
 * @property {(argv: readonly string[]) => Promise<{ readonly message: string, readonly isIncomplete: boolean } | null>} readCommandLine
 *   Of `trainable-agents`.
 */

/** Scripts that pass their parameters to a command of the same name. */
const handedOn = new Set(["start", "train"]);

/**
 * @param {string} file
 * @param {string} text Markdown, or the text of `--help`.
 * @param {Repository} repository
 */
export async function findDeadCommands(file, text, repository) {
  /** @type {string[]} */
  const problems = [];
  for (const command of extractCommands(file, text)) {
    const problem = await problemOf(command, repository);
    if (problem !== null) problems.push(`${command.place} prints "${command.words.join(" ")}": ${problem}`);
  }
  return problems;
}

/**
 * @param {PrintedCommand} command
 * @param {Repository} repository
 * @returns {Promise<string | null>}
 */
async function problemOf({ words, isWhole }, { exists, scripts, readCommandLine }) {
  // vitest accepts prefixes of names.
  const isTest = words.some((word) => /^(?:vitest|test(?::full)?)$/.test(word));
  for (const word of words) {
    const isOurs = /^(?:src|docs|examples|bench|scripts|tests|models)\//.test(word);
    if (isOurs && !exists(word, { isPrefix: isTest })) return `there is no "${word}".`;
  }
  const parsed = commandLineOf(words);
  if (parsed !== null) {
    const problem = await readCommandLine(parsed);
    return problem === null || (problem.isIncomplete && !isWhole) ? null : problem.message;
  }
  if (words[0] !== "npm") return null;
  const script = words[1] === "run" ? (words[2] ?? "") : (words[1] ?? "");
  const [, first = ""] = words.slice(words.indexOf("--")).map(String);
  if (words[1] === "run" && !scripts.has(script)) return `package.json has no script "${script}".`;
  if (script === "bench" && first !== "" && !exists(`bench/${first}.mjs`)) return `there is no bench/${first}.mjs.`;
  return null;
}

/**
 * The parameters of `trainable-agents`, or of a script that passes its own on to it; `null` for
 * another program.
 *
 * @param {readonly string[]} words
 */
function commandLineOf(words) {
  if (words[0] === "npx" && words[1] === "trainable-agents") return words.slice(2);
  if (words[0] === "trainable-agents") return words.slice(1);
  if (words[0] !== "npm") return null;
  const script = words[1] === "run" ? words[2] : words[1];
  if (script === undefined || !handedOn.has(script)) return null;
  return [script, ...(words.includes("--") ? words.slice(words.indexOf("--") + 1) : [])];
}
