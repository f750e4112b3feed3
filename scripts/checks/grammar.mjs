// The grammar of comments, a part of `npm run check -- words`: a comment is a sentence or a noun
// phrase with its head first, so it does not begin with a preposition or a bare question word, and
// some turns of phrase are refused. The number of matches of each is checked against a budget that
// may only fall. Not a judgement of style: that is for review.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { parseSync } from "oxc-parser";

import { root, runCommand } from "../run-command.mjs";

/** Each pattern with its replacement, and the number of comments that still match it. */
export const patterns = [
  {
    name: "begins with Of, As, By, In, With or From",
    find: /^(?:Of|As|By|In|With|From)\b/,
    instead: "name what is described first",
    budget: 0,
  },
  {
    name: "begins with What, Whether, How or Who",
    find: /^(?:What|Whether|How|Who)\b/,
    instead: "name the thing",
    budget: 0,
  },
  {
    name: '"is no <noun>"',
    find: /\b(?:is|are|was|were) no (?!longer|more|matter)[a-z]/,
    instead: '"is not a"',
    budget: 0,
  },
  { name: "nobody", find: /\bnobody\b/i, instead: '"no one", or name who', budget: 0 },
  { name: "whoever, whatever", find: /\b(?:whoever|whatever)\b/i, instead: '"callers", "any value"', budget: 0 },
  { name: '"alone" for only', find: /\balone\b/, instead: '"only"', budget: 0 },
  {
    name: '"behind" for after',
    find: /\bbehind\b(?! (?:(?:an?|the|its|one|any|some) )?(?:APIs?|servers?|router|proxy|gateway|front|protocol|engine)\b)/,
    instead: '"after", "in front of", "stored in"',
    budget: 0,
  },
  {
    name: '"leave out" of an instruction',
    find: /\bleaves? (?:one of both|it|them) out\b/,
    instead: '"remove"',
    budget: 0,
  },
];

/** @returns {Promise<{ problems: string[], summary: string }>} */
export async function checkGrammar() {
  const { output } = await runCommand("git", ["ls-files", "*.ts", "*.tsx", "*.mjs"]);
  /** @type {string[][]} The places of each pattern. */
  const found = patterns.map(() => []);
  let count = 0;
  for (const file of output.split("\n").filter((name) => existsSync(join(root, name)))) {
    const source = readFileSync(join(root, file), "utf8");
    for (const { text, line } of commentsOf(file, source)) {
      count += 1;
      for (const index of matching(text)) found[index]?.push(`${file}:${line}`);
    }
  }
  const problems = patterns.flatMap(({ name, instead, budget }, index) => {
    const places = found[index] ?? [];
    if (places.length === budget) return [];
    if (places.length < budget)
      return [`Comments, ${name}: ${places.length}, and the budget is still ${budget}; lower it.`];
    const shown = places.slice(-10).join(", ");
    return [`Comments, ${name}: ${places.length}, the budget is ${budget}; write ${instead}. Among them: ${shown}.`];
  });
  return { problems, summary: `${count} comments` };
}

/** Indexes of the patterns that a comment matches. @param {string} text */
export function matching(text) {
  return patterns.flatMap(({ find }, index) => (find.test(text) ? [index] : []));
}

/**
 * The comments of a source without their marks; consecutive line comments are one. Directives are
 * excluded.
 *
 * @param {string} file
 * @param {string} source
 */
export function commentsOf(file, source) {
  /** @type {{ type: string, value: string, start: number, end: number }[]} */
  const groups = [];
  for (const { type, value, start, end } of parseSync(file, source).comments) {
    const last = groups.at(-1);
    const isNext = last !== undefined && /^[ \t]*\n[ \t]*$/.test(source.slice(last.end, start));
    if (last !== undefined && isNext && type === "Line" && last.type === "Line") {
      last.value += `\n${value}`;
      last.end = end;
    } else groups.push({ type, value, start, end });
  }
  return groups.flatMap(({ value, start, end }) => {
    const text = value.replaceAll(/^[ \t]*\*?[ \t]?/gm, "").trim();
    if (text === "" || /^(?:ox|eslint|@ts|@type|@param|@import|@typedef|<reference)/.test(text)) return [];
    return [{ text, start, end, line: source.slice(0, start).split("\n").length }];
  });
}
