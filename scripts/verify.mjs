// `npm run verify -- transformers|llama-cpp [--model <folder>] [--prompts <n>] [--write]`: another program reads a model of
// ours, and must say the same of real prompts. Installs that program into build/, never into the package. With --write the
// outcome is put into the model's folder.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

import { root } from "./run-command.mjs";
import { setUp } from "./setup.mjs";
import { compare } from "./verify/compare.mjs";

const usage = "Usage: npm run verify -- transformers|llama-cpp [--model <folder>] [--prompts <n>] [--write]";
/** What is compared with, exactly. */
const pinned = { transformers: "5.23.0", torch: "2.13.0", nodeLlamaCpp: "3.22.1" };
const work = join(root, "build", "verify");

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    model: { type: "string", default: join(root, "models", "bookshop-1m") },
    prompts: { type: "string", default: "50" },
    write: { type: "boolean", default: false },
  },
});
const [peer] = positionals;
if (peer !== "transformers" && peer !== "llama-cpp") {
  process.stderr.write(`${usage}\n`);
  process.exit(2);
}
await setUp();
mkdirSync(work, { recursive: true });

const folder = resolve(process.env["INIT_CWD"] ?? ".", values.model);
const { makeReference } = await import("./verify/reference.mjs");
const reference = await makeReference(folder, Number(values.prompts));
const referencePath = join(work, "reference.json");
const answerPath = join(work, `${peer}.json`);
writeFileSync(referencePath, JSON.stringify(reference));
const engines = peer === "transformers" ? askTransformers() : await askLlama();

const answers = /** @type {import("./verify/compare.mjs").Answers} */ (JSON.parse(readFileSync(answerPath, "utf8")));
const outcome = compare(reference, answers, 1e-3);
process.stdout.write(`${JSON.stringify({ model: basename(folder), ...outcome }, null, 2)}\n`);
if (values.write) {
  const path = join(folder, "verification.json");
  const known = /** @type {object} */ (existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : {});
  writeFileSync(path, `${JSON.stringify({ ...known, [peer]: outcome }, null, 2)}\n`);
}
if (engines !== null) process.stdout.write(`${JSON.stringify(engines, null, 2)}\n`);
process.exitCode = outcome.passed && engines?.passed !== false ? 0 : 1;

function askTransformers() {
  const python = process.env["VERIFY_PYTHON"] ?? makeEnvironment();
  run(python, [join(root, "scripts", "verify", "peer.py"), referencePath, answerPath], work);
  return null;
}

/** A virtual environment with the pinned packages; pip's own settings decide where they come from. */
function makeEnvironment() {
  const environment = join(work, "venv");
  const python = join(environment, process.platform === "win32" ? "Scripts/python.exe" : "bin/python");
  if (!existsSync(python)) run("python3", ["-m", "venv", environment], work);
  run(
    python,
    ["-m", "pip", "install", "--quiet", `torch==${pinned.torch}`, `transformers==${pinned.transformers}`],
    work,
  );
  return python;
}

async function askLlama() {
  const install = join(work, "llama-cpp");
  mkdirSync(install, { recursive: true });
  if (!existsSync(join(install, "node_modules", "node-llama-cpp"))) {
    writeFileSync(join(install, "package.json"), '{ "private": true }\n');
    const platform = `${process.platform === "win32" ? "win" : process.platform === "darwin" ? "mac" : "linux"}-${process.arch}`;
    const packages = [`node-llama-cpp@${pinned.nodeLlamaCpp}`, `@node-llama-cpp/${platform}@${pinned.nodeLlamaCpp}`];
    // Without the optional packages: those are further builds, of hundreds of megabytes, for graphics cards.
    run("npm", ["install", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund", ...packages], install);
  }
  const { exportGguf } = await import("../dist/model/index.js");
  const modelPath = join(work, `${basename(folder)}.gguf`);
  await exportGguf(folder, modelPath);
  run(
    process.execPath,
    [join(root, "scripts", "verify", "llama-peer.mjs"), referencePath, answerPath, modelPath],
    install,
  );
  const { compareEngines } = await import("./verify/llama-engine.mjs");
  const path = createRequire(join(install, "package.json")).resolve("node-llama-cpp");
  const library = /** @type {import("../dist/engines/llama-cpp/index.js").LlamaLibrary} */ (
    await import(pathToFileURL(path).href)
  );
  return compareEngines({ reference, modelPath, library, tolerance: 1e-2 });
}

/**
 * @param {string} command
 * @param {readonly string[]} parameters
 * @param {string} cwd
 */
function run(command, parameters, cwd) {
  const { status } = spawnSync(command, parameters, { cwd, stdio: "inherit" });
  if (status === 0) return;
  process.stderr.write(`Cannot verify: "${command} ${parameters.join(" ")}" ended with ${status}; see above.\n`);
  process.exit(1);
}
