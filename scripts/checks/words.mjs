// `npm run check -- words`: private words in public text: exported identifiers, members of exported
// types, flags and help,
// texts of the service's OpenAPI document, headings of docs. Comments and prose are for review. The
// field's terms are in CONTRIBUTING.md.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { parseSync } from "oxc-parser";

import { root } from "../run-command.mjs";
import { isTest } from "./directions/problems.mjs";
import { checkGrammar } from "./grammar.mjs";
import { readSources } from "./read-sources.mjs";

/**
 * Refused words, and their replacements. At most 30.
 *
 * @type {Readonly<Record<string, string>>}
 */
export const refused = {
  asked: "requested, sent",
  wanted: "expected, required",
  wants: "requires",
  words: "content, text, utterance",
  texts: "text, strings, a noun",
  desk: "handler",
  stage: "pool",
  hands: "dependencies",
  lent: "acquired",
  lends: "acquires",
  told: "detected from",
  tells: "reports",
  laid: "attributed",
  whoever: "a noun",
  nobody: "a noun",
  somebody: "a noun",
  player: "runner",
  plays: "runs",
  played: "run",
  door: "public entry",
  room: "module",
  rooms: "modules",
  anew: "again",
  dead: "zero variance, gone",
  "goes on": "resumes, continues",
  "of late": "recent",
  "under way": "in flight",
  "cut off": "cancelled, truncated",
  "is over": "done, ended",
  "laid to": "attributed to",
};

/** Words that are also refused as names of members of exported types. */
const memberWords = /\b(?:hear|heard|hears|spoken|speaks)\b/;

/** The bookshop is a night desk and uses that word. */
const exempt = /^environments\/bookshop\//;

/** @returns {Promise<{ problems: string[], summary: string }>} */
export async function checkWords() {
  /** @type {string[]} */
  const problems = [];
  let count = 0;
  /** @type {(place: string, text: string) => void} */
  const look = (place, text) => {
    count += 1;
    for (const word of findRefused(text)) problems.push(`${place} says "${word}": ${refused[word]}.`);
  };
  for (const [file, text] of readSources("src", ".ts")) {
    if (isTest(file) || exempt.test(file)) continue;
    for (const name of exportedNames(file, text)) look(`src/${file}: the export ${name}`, splitName(name));
    for (const name of memberNames(file, text)) {
      look(`src/${file}: the member ${name}`, splitName(name));
      const [word] = memberWords.exec(splitName(name).toLowerCase()) ?? [];
      if (word !== undefined)
        problems.push(`src/${file}: the member ${name} says "${word}": utterance, lines, supports.`);
    }
    if (!file.startsWith("service/")) continue;
    for (const [, said = ""] of text.matchAll(/(?:summary|description):\s*["`]([^"`]*)["`]/g))
      look(`src/${file}`, said);
    for (const [, said = ""] of text.matchAll(/\.describe\(\s*["`]([^"`]*)["`]/g)) look(`src/${file}`, said);
  }
  for (const [name, text] of await helpTexts()) look(`The help of ${name}`, text);
  for (const file of ["README.md", "FEATURES.md", "CONTRIBUTING.md"].filter((name) => existsSync(join(root, name)))) {
    lookAtHeadings(file, readFileSync(join(root, file), "utf8"), look);
  }
  for (const [file, text] of readSources("docs", ".md")) lookAtHeadings(`docs/${file}`, text, look);
  const grammar = await checkGrammar();
  problems.push(...grammar.problems);
  return {
    problems,
    summary: `${count} names and texts, ${Object.keys(refused).length} refused words; the grammar of ${grammar.summary}`,
  };
}

/**
 * The refused words of a text, each once.
 *
 * @param {string} text
 */
export function findRefused(text) {
  const plain = text.toLowerCase().replaceAll(/\s+/g, " ");
  return Object.keys(refused).filter((word) => new RegExp(`\\b${word}\\b`).test(plain));
}

/** `openRunFolder` as "open run folder". @param {string} name */
export const splitName = (name) => name.replaceAll(/([a-z\d])([A-Z])/g, "$1 $2").replaceAll("_", " ");

/**
 * @param {string} file
 * @param {string} text
 */
function exportedNames(file, text) {
  const { module } = parseSync(file, text);
  return module.staticExports
    .flatMap(({ entries }) =>
      entries.map(({ exportName, moduleRequest }) => (moduleRequest === null ? exportName.name : null)),
    )
    .filter((name) => name !== null);
}

/**
 * Names of the members of exported interfaces, type aliases and classes, those of nested object
 * types included.
 *
 * @param {string} file
 * @param {string} text
 */
function memberNames(file, text) {
  /** @type {string[]} */
  const names = [];
  const isMember = /^(?:TSPropertySignature|TSMethodSignature|PropertyDefinition|MethodDefinition)$/;
  const collect = (/** @type {unknown} */ node) => {
    if (typeof node !== "object" || node === null) return;
    if (Array.isArray(node)) return node.forEach(collect);
    const { type, key } = /** @type {{ type?: string, key?: { type: string, name?: string } }} */ (node);
    if (typeof type === "string" && isMember.test(type) && key?.type === "Identifier") names.push(String(key.name));
    if (type === "BlockStatement") return;
    Object.values(node).forEach(collect);
  };
  const isType = /^(?:TSInterfaceDeclaration|TSTypeAliasDeclaration|ClassDeclaration)$/;
  for (const node of parseSync(file, text).program.body) {
    if (node.type !== "ExportNamedDeclaration" || node.declaration === null) continue;
    if (isType.test(node.declaration.type)) collect(node.declaration);
  }
  return names;
}

/** @returns {Promise<(readonly [string, string])[]>} The help of every command, the long form included. */
async function helpTexts() {
  const { runCli } = await import("../../dist/cli/run-cli.js");
  const { signal } = new AbortController();
  const silent = { write: () => true };
  const help = async (/** @type {string[]} */ ...argv) => {
    let text = "";
    const stdout = { write: (/** @type {string} */ part) => (text += part) };
    const context = { env: {}, cwd: root, drain: signal, cancel: signal, program: "npx trainable-agents" };
    await runCli(argv, { ...context, stdout, stderr: silent });
    return text;
  };
  const all = await help("--help");
  const names = [...all.matchAll(/^ {2}(\w[\w-]*) .*[[<]/gm)].map(([, name = ""]) => name);
  /** @type {(readonly [string, string])[]} */
  const found = [["trainable-agents", all]];
  for (const name of names) found.push([name, await help(name, "--help")], [name, await help(name, "--help-all")]);
  return found;
}

/**
 * @param {string} file
 * @param {string} text
 * @param {(place: string, text: string) => void} look
 */
function lookAtHeadings(file, text, look) {
  let isCode = false;
  for (const [index, line] of text.split("\n").entries()) {
    if (line.startsWith("```")) isCode = !isCode;
    else if (!isCode && line.startsWith("#")) look(`${file}:${index + 1}`, line);
  }
}
