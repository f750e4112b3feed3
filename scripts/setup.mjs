// Prepares a fresh clone: right Node, dependencies, build. Plain Node without dependencies, because
// it runs before they are installed. Not a package manager: npm installs, `tsc -b` builds, and this
// file only decides when.

import { chmodSync, existsSync, lstatSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { areKernelsStale } from "./build-kernels.mjs";
import { documentSettings } from "./document-settings.mjs";
import { root, runCommand } from "./run-command.mjs";

/** The lowest Node release in `engines` of package.json; a test compares the two. */
export const oldestNode = /** @type {const} */ ([20, 19]);

/**
 * Installs missing packages and builds outdated outputs. Quiet if there is nothing to do; ends the
 * process with code 2 and one sentence if it cannot continue.
 */
export async function setUp() {
  await setUpTools();
  await build();
}

/** The part of `setUp` before the build: tools, and files that tests need beside TypeScript. */
export async function setUpTools() {
  const problem = nodeProblem(process.versions.node) ?? modulesProblem(join(root, "node_modules"));
  if (problem !== null) giveUp(problem);
  if (isInstallStale()) await install();
  if (areKernelsStale()) await step("Building kernels", process.execPath, [join("scripts", "build-kernels.mjs")]);
}

/**
 * Reason why this Node cannot run the package; `null` if it can.
 *
 * @param {string} version
 */
export function nodeProblem(version) {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [oldestMajor, oldestMinor] = oldestNode;
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return null;
  return (
    `Cannot run with Node ${version}: trainable-agents needs Node >= ${oldestMajor}.${oldestMinor}. ` +
    "Install a newer Node and run the command again."
  );
}

/**
 * Reason why dependencies cannot be installed into this folder; `null` if they can. `npm ci`
 * empties the folder first, and through a link that is the folder of another clone.
 *
 * @param {string} folder
 */
export function modulesProblem(folder) {
  if (lstatSync(folder, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return null;
  return (
    `Cannot set up the clone: "${folder}" is a symbolic link, and npm would empty the folder that it points to; ` +
    "remove the link and run the command again, which installs a folder of its own."
  );
}

/**
 * npm writes its own copy of the lock file last, so it is older than ours exactly if an install is
 * due or was interrupted.
 */
function isInstallStale() {
  const installed = join(root, "node_modules", ".package-lock.json");
  return !existsSync(installed) || statSync(installed).mtimeMs < statSync(join(root, "package-lock.json")).mtimeMs;
}

async function install() {
  const flags = ["ci", "--include=dev", "--no-audit", "--no-fund", "--loglevel=error"];
  // Under `npm start` npm names its own script; calling it through Node works on every system.
  const npm = process.env["npm_execpath"];
  const [command, before] = npm?.endsWith(".js") ? [process.execPath, [npm]] : ["npm", []];
  await step("Installing dependencies (once, about half a minute)", command, [...before, ...flags]);
}

async function build() {
  await buildProject("tsconfig.build.json", existsSync(join(root, "dist", "index.js")) ? null : "Building");
  // Sets the executable bit: npm sets it only when it links the program, so after a rebuild of
  // dist/ npx would say "Permission denied".
  chmodSync(join(root, "dist", "cli", "main.js"), 0o755);
  // Imported when packages are installed.
  await (await import("./build-viewer.mjs")).buildViewer();
  await documentSettings();
}

/**
 * Builds one TypeScript project and its references, if outdated.
 *
 * @param {string} project Relative to the root.
 * @param {string | null} [title] Default `null`: not worth a line.
 */
export async function buildProject(project, title = null) {
  await step(title, process.execPath, [join("node_modules", "typescript", "bin", "tsc"), "-b", project]);
}

/**
 * Runs one command of the set-up; shows its output only if it fails.
 *
 * @param {string | null} title `null`: not worth a line
 * @param {string} command
 * @param {readonly string[]} parameters
 */
async function step(title, command, parameters) {
  if (title !== null) process.stderr.write(`${title} ... `);
  const result = await runCommand(command, parameters);
  if (title !== null)
    process.stderr.write(`${result.code === 0 ? "done" : "failed"} in ${result.seconds.toFixed(1)} s\n`);
  if (result.code === 0) return;
  process.stderr.write(`${result.output}\n`);
  giveUp(`Cannot set up the clone: "${[command, ...parameters].join(" ")}" failed; mend what it says above.`);
}

/**
 * @param {string} message
 * @returns {never}
 */
function giveUp(message) {
  process.stderr.write(`${message}\n`);
  process.exit(2);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await setUp();
