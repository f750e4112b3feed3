// `npm run check -- exports`: package.json offers exactly the entries of the modules, and each is
// built, written by hand, and importable without side effects.

import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path/posix";

import { root, runCommand } from "../run-command.mjs";
import { readManifest } from "./manifest.mjs";
import { readSources } from "./read-sources.mjs";
import { isTest, moduleOf, ruleOf } from "./directions/problems.mjs";
import { readImports } from "./directions/read-imports.mjs";
import { packageEntry, modules } from "./directions/table.mjs";

/** @returns {Promise<{ problems: string[], summary: string }>} */
export async function checkExports() {
  const { name, exports } = readManifest();
  const wanted = new Map([[".", packageEntry]]);
  for (const entry of publicEntries()) wanted.set(`./${dirname(entry)}`, entry);
  /** @type {string[]} */
  const problems = [];

  for (const [subpath, entry] of wanted) {
    const base = `./dist/${entry.replace(/\.ts$/, "")}`;
    const fields = JSON.stringify({ types: `${base}.d.ts`, default: `${base}.js` });
    if (JSON.stringify(exports[subpath]) !== fields) {
      problems.push(
        `package.json does not offer src/${entry}: its exports need ${JSON.stringify(subpath)}: ${fields}.`,
      );
    }
    for (const file of [`${base}.d.ts`, `${base}.js`]) {
      if (!existsSync(join(root, file)))
        problems.push(`package.json offers "${subpath}" and the build has no "${file}".`);
    }
    problems.push(...foreignReexports(entry));
  }
  for (const subpath of Object.keys(exports)) {
    if (!wanted.has(subpath) && subpath !== "./package.json") {
      problems.push(`package.json offers "${subpath}", which is the public entry of no module.`);
    }
  }
  if (problems.length === 0) problems.push(...(await importAll([...wanted.keys()].map((path) => join(name, path)))));
  return { problems, summary: `${wanted.size} subpaths` };
}

/** @returns {string[]} Entries of built modules that the table does not keep inside. */
function publicEntries() {
  const tree = { modules };
  const built = new Set(
    [...readSources("src", ".ts").keys()].filter((file) => !isTest(file)).map((file) => moduleOf(file, tree)),
  );
  return [...built]
    .filter((module) => module !== null && ruleOf(module, tree)?.isInternal !== true)
    .map((module) => join(module ?? "", "index.ts"));
}

/**
 * A public entry names its exports. Only files of its own module may be re-exported as a whole.
 *
 * @param {string} entry
 */
function* foreignReexports(entry) {
  const file = join(root, "src", entry);
  if (!existsSync(file)) {
    yield `src/${entry} is missing: a module without "isInternal" in the table has a public entry.`;
    return;
  }
  for (const { specifier, line, isReexportOfAll } of readImports(entry, readFileSync(file, "utf8"))) {
    const isOwn = specifier?.startsWith("./") && !(entry === packageEntry && specifier.includes("/", 2));
    if (isReexportOfAll && !isOwn) yield `src/${entry}:${line} lets all of "${specifier}" through: name what passes.`;
  }
}

/**
 * Imports without side effects: nothing is printed and nothing keeps the process alive.
 *
 * @param {readonly string[]} specifiers
 */
async function importAll(specifiers) {
  const program = specifiers.map((specifier) => `await import(${JSON.stringify(specifier)});`).join(" ");
  const guard =
    'setTimeout(() => { console.log("An import keeps the process alive."); process.exit(1); }, 10_000).unref();';
  const parameters = ["--input-type=module", "--eval", `${program} ${guard}`];
  const { code, output } = await runCommand(process.execPath, parameters);
  return code === 0 && output === "" ? [] : [`Importing every subpath ended with code ${code} and printed: ${output}`];
}
