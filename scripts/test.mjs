// `npm test`: sets the clone up, then runs the tests. Parameters are passed on to vitest (`npm test
// -- src/core`), except `--full`, which runs properties and soaks with the counts of a release
// instead of the daily ones, and `--needs-shared`, which runs the test files that read `../shared`:
// those that a run without that folder skips or runs with less data. A folder without tests (`npm
// test -- src/graders/labels`) is tested from its parent folder.

import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";

import { root, runAttached } from "./run-command.mjs";
import { setUp } from "./setup.mjs";

// First, so that an old Node is reported before anything else.
await setUp();
if (!existsSync(join(root, "..", "shared"))) {
  if (process.env["CI"] === "true") {
    process.stderr.write(
      'Cannot run the tests: the golden files at "../shared" are absent and CI is "true"; ' +
        "put the shared folder beside the repository, or unset CI to skip the tests that need it.\n",
    );
    process.exit(1);
  }
  process.stderr.write('No golden files at "../shared": the tests that need them are skipped.\n');
}

const flags = process.argv.slice(2);
const env = flags.includes("--full") ? { ...process.env, FULL: "1" } : process.env;
const parameters = flags.filter((name) => name !== "--full" && name !== "--needs-shared").map(folderWithTests);
if (flags.includes("--needs-shared")) parameters.push(...filesThatNeedShared());
const vitest = [join(root, "node_modules", "vitest", "vitest.mjs"), "run"];
process.exitCode = await runAttached([...vitest, ...parameters], { env });

/**
 * A folder without tests is replaced by its parent; every other parameter is unchanged.
 *
 * @param {string} parameter
 * @returns {string}
 */
function folderWithTests(parameter) {
  const folder = join(root, parameter);
  const isFolder = parameter.includes("/") && statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true;
  if (!isFolder || readdirSync(folder, { recursive: true, encoding: "utf8" }).some((file) => file.endsWith(".test.ts")))
    return parameter;
  process.stderr.write(`No tests lie in "${parameter}": those of "${dirname(parameter)}" run.\n`);
  return folderWithTests(dirname(parameter));
}

/** The tests that search for the shared folder, directly or through an imported helper. */
function filesThatNeedShared() {
  const files = ["src", "scripts", "examples", "tests"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((file) => join(folder, file)),
  );
  /** @type {(ending: RegExp, texts: readonly string[]) => string[]} */
  const filesWith = (ending, texts) =>
    files.filter((file) => {
      if (!ending.test(file)) return false;
      const source = readFileSync(join(root, file), "utf8");
      return texts.some((text) => source.includes(text));
    });
  const helpers = filesWith(/\.test-helper\.ts$/, ["sharedFolder("]);
  return filesWith(/\.test\.ts$/, ["sharedFolder(", ...helpers.map((file) => `/${basename(file)}"`)]);
}
