// `npm run check`: all rules that a change must keep, one line each; the output of a failing check
// is shown below its line. `npm run check -- directions lint` runs only those two. CI runs these
// and nothing else.

import { join } from "node:path";

import { documentSettings } from "./document-settings.mjs";
import { root, runCommand } from "./run-command.mjs";
import { setUpTools } from "./setup.mjs";

/**
 * @typedef {{ readonly problems: readonly string[], readonly summary: string }} Verdict
 * @typedef {{ readonly name: string, readonly what: string, readonly run: () => Verdict | Promise<Verdict>, readonly isExtra?: boolean }} Check
 */

/**
 * Our own checks are imported when they run: on a fresh clone their dependencies are not installed
 * yet.
 *
 * @type {readonly Check[]}
 */
const checks = [
  { name: "format", what: "oxfmt", run: () => tool("oxfmt/bin/oxfmt", ["--check"]) },
  { name: "lint", what: "oxlint with types", run: () => tool("oxlint/bin/oxlint", ["--deny-warnings"]) },
  { name: "types", what: "package, tests, scripts", run: () => tool("typescript/bin/tsc", ["-b"]) },
  {
    name: "directions",
    what: "import directions",
    run: async () => (await import("./checks/directions/check.mjs")).checkDirections(),
  },
  {
    name: "exports",
    what: "public entries",
    run: async () => (await import("./checks/exports.mjs")).checkExports(),
  },
  { name: "unused", what: "knip", run: () => tool("knip/bin/knip.js", ["--no-progress"]) },
  { name: "publint", what: "package manifest", run: () => tool("publint/src/cli.js", ["--strict", "--pack", "false"]) },
  {
    name: "docs",
    what: "examples of README, docs, docstrings",
    run: async () => (await import("./checks/docs/check.mjs")).checkDocs(),
  },
  {
    name: "files",
    what: "sizes, headers, paths, hosts",
    run: async () => (await import("./checks/files.mjs")).checkFiles(),
  },
  {
    name: "path",
    what: "from a command to an episode",
    run: async () => (await import("./checks/path.mjs")).checkPath(),
  },
  {
    name: "words",
    what: "the field's words",
    run: async () => (await import("./checks/words.mjs")).checkWords(),
  },
  { name: "tests", what: "vitest", run: () => tool("vitest/vitest.mjs", ["run"]) },
  {
    name: "package",
    what: "packed, installed, used",
    run: async () => (await import("./checks/package.mjs")).checkPackage(),
    isExtra: true,
  },
];

const names = process.argv.slice(2);
const unknown = names.filter((name) => !checks.some((check) => check.name === name));
if (unknown.length > 0) {
  const known = checks.map((check) => check.name).join(", ");
  process.stderr.write(`Cannot run check "${unknown.join('", "')}": checks are ${known}.\n`);
  process.exit(2);
}

await setUpTools();
// Some checks read the build. The check "types" reports its errors, in addition to those of the
// other checks.
const built = await tool("typescript/bin/tsc", ["-b", "tsconfig.build.json"]);
if (built.problems.length === 0) await documentSettings();
const failed = [];
for (const check of checks) {
  if (names.length > 0 ? !names.includes(check.name) : check.isExtra === true) continue;
  const started = performance.now();
  process.stdout.write(check.name.padEnd(11));
  const { problems, summary } = await check.run();
  const seconds = ((performance.now() - started) / 1000).toFixed(1).padStart(5);
  const verdict = problems.length === 0 ? "ok    " : "FAILED";
  process.stdout.write(`${verdict}${seconds} s  ${check.what}${summary === "" ? "" : `: ${summary}`}\n`);
  if (problems.length > 0) {
    failed.push(check.name);
    process.stdout.write(`${problems.join("\n").replace(/^(?=.)/gm, "    ")}\n`);
  }
}
if (failed.length > 0) {
  process.stdout.write(`\nFailed: ${failed.join(", ")}. Run them alone with "npm run check -- ${failed.join(" ")}".\n`);
  process.exitCode = 1;
}

/**
 * Runs an external program as a check: its exit code is the verdict.
 *
 * @param {string} program Path below node_modules/.
 * @param {readonly string[]} parameters
 * @returns {Promise<Verdict>}
 */
async function tool(program, parameters) {
  const { code, output } = await runCommand(process.execPath, [join(root, "node_modules", program), ...parameters]);
  return {
    problems: code === 0 ? [] : [output === "" ? `It ended with code ${code} and said nothing.` : output],
    summary: "",
  };
}
