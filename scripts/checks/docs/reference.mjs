// docs/reference.md: generated from the build, so that it cannot become outdated. `npm run check --
// docs` compares; `node scripts/checks/docs/reference.mjs --write` writes it again.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { root } from "../../run-command.mjs";
import { readManifest } from "../manifest.mjs";
import { recordSections } from "./records.mjs";
import { wrap } from "./wrap.mjs";

export const referenceFile = join("docs", "reference.md");

/** @returns {Promise<string>} The whole page. */
export async function referencePage() {
  const { name, exports } = readManifest();
  const commands = [];
  for (const [command, help] of await commandHelp())
    commands.push(`### ${command}`, "", "```text", help.trim(), "```", "");
  const entries = [];
  for (const subpath of Object.keys(exports).filter((path) => path !== "./package.json")) {
    const path = join(name, subpath);
    const names = Object.keys(/** @type {object} */ (await import(path))).sort();
    entries.push(`### \`${path}\``, "", ...wrap(names.map((one) => `\`${one}\``).join(", ")), "");
  }
  return [
    "# Reference",
    "",
    "Generated from the build by `node scripts/checks/docs/reference.mjs --write`. Options of a public function have the names of the",
    "flags in camelCase; a configuration file (`--config`) takes those names as well.",
    "",
    "## Commands",
    "",
    ...commands,
    "## Public entries",
    "",
    "The values that each import path offers; types stand beside them in its declarations.",
    "",
    ...entries,
    "## Records",
    "",
    'Fields of the files of a run folder and of exported rows. "packed" arrays are `{"dtype": ..., "base64": ...}`, little-endian.',
    "",
    await recordSections(),
  ]
    .join("\n")
    .trimEnd()
    .concat("\n");
}

/** @returns {Promise<(readonly [string, string])[]>} Each command with its longest help. */
async function commandHelp() {
  const { runCli } = await import("../../../dist/cli/run-cli.js");
  const { signal } = new AbortController();
  const help = async (/** @type {string[]} */ ...argv) => {
    let text = "";
    const stdout = { columns: 100, write: (/** @type {string} */ part) => (text += part) };
    const silent = { write: () => true };
    const context = { env: {}, cwd: root, drain: signal, cancel: signal, program: "npx trainable-agents" };
    await runCli(argv, { ...context, stdout, stderr: silent });
    return text;
  };
  const names = [...(await help("--help")).matchAll(/^ {2}(\w[\w-]*) .*[[<]/gm)].map(([, name = ""]) => name);
  /** @type {(readonly [string, string])[]} */
  const found = [];
  for (const name of names.filter((one) => one !== "help")) {
    const short = await help(name, "--help");
    found.push([name, short.includes("--help-all") ? await help(name, "--help-all") : short]);
  }
  return found;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const page = await referencePage();
  if (process.argv.includes("--write")) writeFileSync(join(root, referenceFile), page);
  else process.stdout.write(page);
}
