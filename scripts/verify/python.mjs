// Python environments of the verifications, below build/ and never in the package: first one for uv
// from PyPI, then one for each server with pinned versions. pip's and uv's own settings decide
// where packages come from.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { root } from "../run-command.mjs";

const work = join(root, "build", "verify");
const uvVersion = "0.13.9";

/** Error of a verification that cannot run here; its message is one sentence with a remedy. */
export class CannotVerify extends Error {}

/**
 * @param {object} wanted
 * @param {string} wanted.name Name of the environment's folder.
 * @param {readonly string[]} wanted.packages Packages in uv's notation.
 * @param {readonly string[]} [wanted.overrides] Requirements that stand in for those of the packages.
 * @param {string} [wanted.hashed] Text of a file of requirements with their hashes, which are demanded.
 * @param {number} [wanted.oldest] Python 3.x that it needs at least. Default 10.
 * @returns {{ folder: string, bin: (name: string) => string }} Folder, and paths of programs by name.
 */
export function makeEnvironment({ name, packages, overrides = [], hashed = "", oldest = 10 }) {
  const folder = join(work, name);
  const bin = (/** @type {string} */ program) => programIn(join(folder, "venv"), program);
  const stamp = join(folder, "installed.json");
  const wanted = JSON.stringify({ packages, overrides, hashed });
  if (existsSync(bin("python")) && existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return { folder, bin };
  const uv = findUv();
  mkdirSync(folder, { recursive: true });
  rmSync(stamp, { force: true });
  run(uv, ["venv", "--quiet", "--clear", "--python", findPython(oldest), join(folder, "venv")]);
  const install = ["pip", "install", "--quiet", "--python", bin("python")];
  if (hashed !== "") {
    const file = join(folder, "hashed.txt");
    writeFileSync(file, hashed);
    run(uv, [...install, "--no-deps", "--require-hashes", "--requirement", file]);
  }
  const override = join(folder, "overrides.txt");
  writeFileSync(override, overrides.join("\n"));
  run(uv, [...install, "--override", override, ...packages]);
  writeFileSync(stamp, wanted);
  return { folder, bin };
}

/**
 * Installs a package without its dependencies into its own folder.
 *
 * @param {string} folder
 * @param {string} wanted Package in uv's notation.
 * @param {boolean} isNew True to install it again if it is present.
 * @returns {string} The folder.
 */
export function installInto(folder, wanted, isNew = false) {
  const stamp = join(folder, "installed.txt");
  if (!isNew && existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return folder;
  rmSync(folder, { recursive: true, force: true });
  run(findUv(), ["pip", "install", "--quiet", "--no-deps", "--target", folder, "--python", findPython(10), wanted]);
  writeFileSync(stamp, wanted);
  return folder;
}

/**
 * Version of an installed package, from its metadata.
 *
 * @param {string} python
 * @param {string} distribution
 */
export function versionOf(python, distribution) {
  return outputOf(python, `import importlib.metadata; print(importlib.metadata.version("${distribution}"))`);
}

/** Output of a Python program. @param {string} python @param {string} code */
export function outputOf(python, code) {
  return spawnSync(python, ["-c", code], { encoding: "utf8" }).stdout.trim();
}

/** Path of the program, which is installed if missing. */
export function findUv() {
  const environment = join(work, `uv-${uvVersion}`);
  const uv = programIn(environment, "uv");
  if (existsSync(uv)) return uv;
  mkdirSync(work, { recursive: true });
  run(findPython(10), ["-m", "venv", environment]);
  run(programIn(environment, "python"), ["-m", "pip", "install", "--quiet", `uv==${uvVersion}`]);
  return uv;
}

/**
 * Searches for a Python by its usual names; shims without a Python fail when they are called.
 *
 * @param {number} oldest
 */
function findPython(oldest) {
  const code = `import sys, venv; print(sys.executable if (3, ${oldest}) <= sys.version_info < (3, 14) else '')`;
  for (const name of ["python3.12", "python3.11", "python3.13", "python3.10", "python3", "python"]) {
    const { status, stdout } = spawnSync(name, ["-c", code], { encoding: "utf8" });
    if (status === 0 && stdout.trim() !== "") return stdout.trim();
  }
  throw new CannotVerify(
    `Cannot verify: no Python from 3.${oldest} to 3.13 with its module venv is here; install one of them.`,
  );
}

/**
 * @param {string} environment
 * @param {string} program
 */
function programIn(environment, program) {
  return process.platform === "win32"
    ? join(environment, "Scripts", `${program}.exe`)
    : join(environment, "bin", program);
}

/**
 * @param {string} command
 * @param {readonly string[]} parameters
 */
function run(command, parameters) {
  const { status, stderr, error } = spawnSync(command, parameters, {
    encoding: "utf8",
    stdio: ["ignore", "inherit", "pipe"],
    env: { ...process.env, UV_PYTHON_DOWNLOADS: "never", UV_HTTP_TIMEOUT: "300", UV_LINK_MODE: "hardlink" },
  });
  if (status === 0) return;
  process.stderr.write(stderr ?? "");
  throw new CannotVerify(
    `Cannot verify: "${parameters.slice(0, 4).join(" ")}" ended with ${status ?? error?.message}, see above; ` +
      "check the network and the space on the disk, and run it again.",
  );
}
