// References in documentation: files by link or by path in code, and commands of package.json. A
// reference to a removed file is the first thing that rots.

import { dirname, join } from "node:path/posix";

/**
 * @param {string} file Path of the Markdown file below the root.
 * @param {string} text
 * @param {{ readonly exists: (path: string) => boolean, readonly scripts: ReadonlySet<string> }} repository
 * @returns {Iterable<string>}
 */
export function* findDeadReferences(file, text, { exists, scripts }) {
  const folder = dirname(file);
  for (const [index, line] of text.split("\n").entries()) {
    const place = `${file}:${index + 1}`;
    for (const [, target = ""] of line.matchAll(/\]\((?!\w+:)([^)#\s]+)[^)]*\)/g)) {
      if (!exists(join(folder, target))) yield `${place} links to "${target}", which does not exist.`;
    }
    for (const [, path = ""] of line.matchAll(/`((?:src|docs|examples|bench|scripts)\/[\w./-]+)`/g)) {
      if (!exists(path)) yield `${place} names \`${path}\`, which does not exist.`;
    }
    for (const [, name = ""] of line.matchAll(/\bnpm run ([\w:-]+)/g)) {
      if (!scripts.has(name)) yield `${place} says "npm run ${name}", which package.json does not have.`;
    }
  }
}

/**
 * Modules that are missing in the README's tree.
 *
 * @param {string} readme
 * @param {Iterable<string>} moduleNames
 * @returns {Iterable<string>}
 */
export function* findMissingModules(readme, moduleNames) {
  for (const module of moduleNames) {
    if (!new RegExp(`(?:^|[\\s/\`])${module}/`, "m").test(readme))
      yield `README.md has no line for src/${module}/ in its tree.`;
  }
}

/** Maximum width of a table in text columns. */
const widestTable = 120;

/**
 * Tables that are too wide for a screen, each at its first line.
 *
 * @param {string} file
 * @param {string} text
 * @returns {Iterable<string>}
 */
export function* findWideTables(file, text) {
  let isCode = false;
  for (const [index, line] of text.split("\n").entries()) {
    if (line.startsWith("```")) isCode = !isCode;
    if (isCode || !/^\|[\s:|-]+\|$/.test(line) || line.length <= widestTable) continue;
    yield `${file}:${index} has a table of ${line.length} columns, ${widestTable} is the most: write it as a list.`;
  }
}
