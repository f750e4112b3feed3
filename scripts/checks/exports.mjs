// `npm run check -- exports`: what package.json offers is exactly the doors of the rooms, each is built, written by hand, and
// can be imported without doing anything.

import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path/posix";

import { root, runCommand } from "../run-command.mjs";
import { readManifest } from "./manifest.mjs";
import { readSources } from "./read-sources.mjs";
import { isTest, roomOf, ruleOf } from "./rooms/problems.mjs";
import { readImports } from "./rooms/read-imports.mjs";
import { packageDoor, rooms } from "./rooms/table.mjs";

/** @returns {Promise<{ problems: string[], summary: string }>} */
export async function checkExports() {
  const { name, exports } = readManifest();
  const wanted = new Map([[".", packageDoor]]);
  for (const door of publicDoors()) wanted.set(`./${dirname(door)}`, door);
  /** @type {string[]} */
  const problems = [];

  for (const [subpath, door] of wanted) {
    const base = `./dist/${door.replace(/\.ts$/, "")}`;
    const entry = JSON.stringify({ types: `${base}.d.ts`, default: `${base}.js` });
    if (JSON.stringify(exports[subpath]) !== entry) {
      problems.push(`package.json does not offer src/${door}: its exports need ${JSON.stringify(subpath)}: ${entry}.`);
    }
    for (const file of [`${base}.d.ts`, `${base}.js`]) {
      if (!existsSync(join(root, file)))
        problems.push(`package.json offers "${subpath}" and the build has no "${file}".`);
    }
    problems.push(...foreignReexports(door));
  }
  for (const subpath of Object.keys(exports)) {
    if (!wanted.has(subpath) && subpath !== "./package.json") {
      problems.push(`package.json offers "${subpath}", which is the door of no public room.`);
    }
  }
  if (problems.length === 0) problems.push(...(await importAll([...wanted.keys()].map((path) => join(name, path)))));
  return { problems, summary: `${wanted.size} subpaths` };
}

/** @returns {string[]} Doors of built rooms that the table does not keep inside. */
function publicDoors() {
  const house = { rooms };
  const built = new Set(
    [...readSources("src", ".ts").keys()].filter((file) => !isTest(file)).map((file) => roomOf(file, house)),
  );
  return [...built]
    .filter((room) => room !== null && ruleOf(room, house)?.isInternal !== true)
    .map((room) => join(room ?? "", "index.ts"));
}

/**
 * A door names what passes through it. Only the files of its own room may be let through as they are.
 *
 * @param {string} door
 */
function* foreignReexports(door) {
  const file = join(root, "src", door);
  if (!existsSync(file)) {
    yield `src/${door} is missing: a room without "isInternal" in the table has a door.`;
    return;
  }
  for (const { specifier, line, isReexportOfAll } of readImports(door, readFileSync(file, "utf8"))) {
    const isOwn = specifier?.startsWith("./") && !(door === packageDoor && specifier.includes("/", 2));
    if (isReexportOfAll && !isOwn) yield `src/${door}:${line} lets all of "${specifier}" through: name what passes.`;
  }
}

/**
 * Importing is all it does: nothing is printed and nothing keeps the process alive.
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
