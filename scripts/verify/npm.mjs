// npm packages that a verification runs, in their own folder below build/ and never in the package.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { root, runAttached } from "../run-command.mjs";
import { CannotVerify } from "./python.mjs";

/**
 * Path of the folder with the packages; prints their versions.
 *
 * @param {string} name @param {Readonly<Record<string, string>>} wanted
 */
export async function installPackages(name, wanted) {
  const folder = join(root, "build", name);
  mkdirSync(folder, { recursive: true });
  const manifest = JSON.stringify({ private: true, type: "module", dependencies: wanted }, null, 2);
  const stamp = join(folder, "installed.json");
  if (!existsSync(stamp) || readFileSync(stamp, "utf8") !== manifest) {
    writeFileSync(join(folder, "package.json"), manifest);
    process.stdout.write("Installing packages ...\n");
    const npm = process.env["npm_execpath"];
    if (npm === undefined) throw new CannotVerify("Cannot install packages: run this as npm run verify -- <what>.");
    const quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    const code = await runAttached([npm, "install", ...quiet, "--prefix", folder]);
    if (code !== 0) throw new CannotVerify(`Cannot install packages: npm ended with ${code}.`);
    writeFileSync(stamp, manifest);
  }
  const versions = Object.entries(wanted).map(([one, version]) => `${one} ${version}`);
  process.stdout.write(`${versions.join(", ")}\n`);
  return folder;
}
