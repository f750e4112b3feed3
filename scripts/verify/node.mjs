// `npm run verify -- node`: other Node versions, from npm's own package of them. On a refused
// version the program and every script state the required one; the whole suite passes on the newer
// ones.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";

import { root, runCommand } from "../run-command.mjs";
import { nodeProblem } from "../setup.mjs";
import { CannotVerify } from "./python.mjs";

const refused = "18";
const accepted = ["22", "24"];

/** @returns {Promise<number>} An exit code. */
export async function verifyNode() {
  const failures = await refusals(installNode(refused));
  for (const release of accepted) {
    const node = installNode(release);
    process.stdout.write(`\nnpm test on Node ${versionOf(node)}\n`);
    const path = `${dirname(node)}${delimiter}${process.env["PATH"] ?? ""}`;
    // Processes that tests start use the same Node, because they start their own executable.
    const { status } = spawnSync(node, [join(root, "scripts", "test.mjs")], {
      cwd: root,
      stdio: "inherit",
      env: { ...process.env, PATH: path },
    });
    if (status !== 0) failures.push(`npm test ended with code ${status} on Node ${release}.`);
  }
  process.stdout.write(`${failures.join("\n") || `Node ${refused} is refused, ${accepted.join(" and ")} pass.`}\n`);
  return failures.length === 0 ? 0 : 1;
}

/** @param {string} node */
async function refusals(node) {
  const expected = nodeProblem(versionOf(node)) ?? "";
  /** @type {string[]} */
  const failures = [];
  for (const program of ["dist/cli/main.js", "scripts/start.mjs", "scripts/test.mjs", "scripts/train.mjs"]) {
    const { code, output } = await runCommand(node, [join(root, program), "--help"]);
    process.stdout.write(`node@${refused} ${program}: ${output}\n`);
    if (code !== 2 || output !== expected)
      failures.push(`${program} ended with code ${code} on Node ${refused}: ${output}`);
  }
  return failures;
}

/**
 * The program of a release, installed into build/.
 *
 * @param {string} release
 */
export function installNode(release) {
  const folder = join(root, "build", "verify", `node-${release}`);
  const program = join(folder, "node_modules", "node", "bin", process.platform === "win32" ? "node.exe" : "node");
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{ "private": true }\n');
  const flags = ["install", `node@${release}`, "--no-audit", "--no-fund", "--loglevel=error"];
  const { status } = spawnSync("npm", flags, { cwd: folder, stdio: "inherit", shell: process.platform === "win32" });
  if (status === 0 && existsSync(program)) return program;
  throw new CannotVerify(`Cannot install node@${release} from npm: it ended with code ${status}; see above.`);
}

/** @param {string} node */
function versionOf(node) {
  return spawnSync(node, ["--version"], { encoding: "utf8" }).stdout.trim().slice(1);
}
