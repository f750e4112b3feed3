// `npm run check -- size`: how large each module of src/ is, tests and their helpers left out, against its entry in size.json. A
// change that needs more raises its module's entry in the same commit; `node scripts/checks/size.mjs` prints all of it, with
// `--write` it writes the entries anew.

import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { join as joinPosix, normalize } from "node:path/posix";
import { fileURLToPath } from "node:url";

import { parseSync } from "oxc-parser";

import { root } from "../run-command.mjs";
import { isTest } from "./directions/problems.mjs";
import { readImports } from "./directions/read-imports.mjs";
import { readSources } from "./read-sources.mjs";

/**
 * @typedef {object} Size
 * @property {number} files
 * @property {number} lines All of them.
 * @property {number} code Lines that hold a token which belongs neither to a comment nor to an import.
 */

const tableFile = join(root, "scripts", "checks", "size.json");

/** @returns {{ problems: string[], summary: string }} */
export function checkSize() {
  const { total: limit, modules } = readTable();
  const sizes = measure();
  const total = sum(sizes.values());
  /** @type {string[]} */
  const problems = [];
  for (const [name, size] of [...sizes, /** @type {const} */ (["all of src/", total])]) {
    const entry = name === "all of src/" ? limit : modules[name];
    if (entry === undefined) {
      problems.push(`src/${name}/ has no entry in scripts/checks/size.json: add one.`);
      continue;
    }
    for (const key of /** @type {const} */ (["files", "lines", "code"])) {
      if (size[key] <= entry[key]) continue;
      problems.push(
        `${name} has ${size[key]} ${key === "code" ? "lines of code" : key}, its entry in scripts/checks/size.json ${entry[key]}: ` +
          "remove a second way of doing something, or raise the entry in the change that needs it.",
      );
    }
  }
  return { problems, summary: `${total.files} files, ${total.lines} lines, ${total.code} of code` };
}

function readTable() {
  return /** @type {{ total: Size, modules: Readonly<Record<string, Size>> }} */ (
    JSON.parse(readFileSync(tableFile, "utf8"))
  );
}

/** @returns {Map<string, Size>} By the first folder below src/. */
function measure() {
  /** @type {Map<string, Size>} */
  const sizes = new Map();
  for (const [file, text] of readSources("src", ".ts")) {
    if (isTest(file)) continue;
    const name = file.includes("/") ? file.slice(0, file.indexOf("/")) : "index";
    const size = sizes.get(name) ?? { files: 0, lines: 0, code: 0 };
    sizes.set(name, {
      files: size.files + 1,
      lines: size.lines + text.split("\n").length - 1,
      code: size.code + codeLines(file, text),
    });
  }
  return new Map([...sizes].sort(([first], [second]) => (first < second ? -1 : 1)));
}

/**
 * @param {string} file
 * @param {string} text
 */
function codeLines(file, text) {
  const { program, comments } = parseSync(file, text);
  const imports = program.body.filter(({ type }) => type === "ImportDeclaration");
  let rest = "";
  let from = 0;
  for (const { start, end } of [...comments, ...imports].sort((first, second) => first.start - second.start)) {
    // A comment within an import is behind `from` already.
    if (start < from) continue;
    rest += text.slice(from, start) + text.slice(start, end).replaceAll(/[^\n]/g, " ");
    from = end;
  }
  return (rest + text.slice(from)).split("\n").filter((line) => line.trim() !== "").length;
}

/** @param {Iterable<Size>} sizes */
function sum(sizes) {
  const total = { files: 0, lines: 0, code: 0 };
  for (const { files, lines, code } of sizes) {
    total.files += files;
    total.lines += lines;
    total.code += code;
  }
  return total;
}

/** Files under 60 lines that one other file imports: reported, because they often belong into it. */
function smallFiles() {
  const sources = [...readSources("src", ".ts")].filter(([file]) => !isTest(file));
  /** @type {Map<string, Set<string>>} */
  const importers = new Map();
  for (const [file, text] of sources) {
    for (const { specifier } of readImports(file, text)) {
      if (specifier?.startsWith(".") !== true) continue;
      const target = normalize(joinPosix(dirname(file), specifier));
      importers.set(target, (importers.get(target) ?? new Set()).add(file));
    }
  }
  return sources
    .filter(([file, text]) => text.split("\n").length <= 60 && importers.get(file)?.size === 1)
    .map(
      ([file, text]) =>
        `${file}: ${text.split("\n").length - 1} lines, imported by ${[...(importers.get(file) ?? [])].join("")}`,
    );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const sizes = measure();
  const total = sum(sizes.values());
  for (const [name, { files, lines, code }] of [...sizes, /** @type {const} */ (["in all", total])]) {
    process.stdout.write(
      `${name.padEnd(18)}${String(files).padStart(5)} files${String(lines).padStart(7)} lines${String(code).padStart(7)} of code\n`,
    );
  }
  const small = smallFiles();
  process.stdout.write(`\n${small.length} files under 60 lines with one importer:\n${small.join("\n")}\n`);
  if (process.argv.includes("--write")) {
    const table = { total, modules: Object.fromEntries(sizes) };
    writeFileSync(tableFile, `${JSON.stringify(table, null, 2)}\n`);
  }
}
