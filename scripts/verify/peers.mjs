// `npm run verify -- transformers|llama-cpp`: another program reads one of our models, and must
// produce the same results for real prompts. --write stores the outcome in the model's folder, with
// the SHA-256 of the weights to which it applies.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";

import { root } from "../run-command.mjs";
import { compare } from "./compare.mjs";
import { makeReference } from "./reference.mjs";

/** Exact versions of the programs that are compared. */
const pinned = { transformers: "5.23.0", torch: "2.13.0", nodeLlamaCpp: "3.22.1" };
const work = join(root, "build", "verify");

/**
 * @param {"transformers" | "llama-cpp"} peer
 * @param {{ readonly model: string, readonly prompts: number, readonly write: boolean }} options
 * @returns {Promise<number>} The exit code.
 */
export async function verifyPeer(peer, { model, prompts, write }) {
  mkdirSync(work, { recursive: true });
  const reference = await makeReference(model, prompts);
  const referencePath = join(work, "reference.json");
  const answerPath = join(work, `${peer}.json`);
  writeFileSync(referencePath, JSON.stringify(reference));
  const asked = { reference, referencePath, answerPath };
  const engines = peer === "transformers" ? askTransformers(asked) : await askLlama(asked);
  const answers = /** @type {import("./compare.mjs").Answers} */ (JSON.parse(readFileSync(answerPath, "utf8")));
  const outcome = compare(reference, answers, 1e-3);
  process.stdout.write(`${JSON.stringify({ model: basename(model), ...outcome }, null, 2)}\n`);
  if (write) {
    const path = join(model, "verification.json");
    const known = /** @type {object} */ (existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : {});
    const weights = createHash("sha256")
      .update(readFileSync(join(model, "model.safetensors")))
      .digest("hex");
    writeFileSync(path, `${JSON.stringify({ ...known, [peer]: { ...outcome, weights } }, null, 2)}\n`);
  }
  if (engines !== null) process.stdout.write(`${JSON.stringify(engines, null, 2)}\n`);
  return outcome.passed && engines?.passed !== false ? 0 : 1;
}

/** @typedef {{ readonly reference: import("./reference.mjs").Reference, readonly referencePath: string, readonly answerPath: string }} Asked */

/** @param {Asked} asked */
function askTransformers({ referencePath, answerPath }) {
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

/** Installs node-llama-cpp; returns its folder. */
export function installLlama() {
  const install = join(work, "llama-cpp");
  mkdirSync(install, { recursive: true });
  if (existsSync(join(install, "node_modules", "node-llama-cpp"))) return install;
  writeFileSync(join(install, "package.json"), '{ "private": true }\n');
  const platform = `${process.platform === "win32" ? "win" : process.platform === "darwin" ? "mac" : "linux"}-${process.arch}`;
  const packages = [`node-llama-cpp@${pinned.nodeLlamaCpp}`, `@node-llama-cpp/${platform}@${pinned.nodeLlamaCpp}`];
  // Optional packages are excluded: they are further builds, of hundreds of megabytes, for graphics
  // cards.
  run("npm", ["install", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund", ...packages], install);
  return install;
}

/** @param {Asked} asked */
async function askLlama({ reference, referencePath, answerPath }) {
  const { folder } = reference;
  const install = installLlama();
  const { exportGguf } = await import("../../dist/learner/model/index.js");
  const modelPath = join(work, `${basename(folder)}.gguf`);
  await exportGguf(folder, modelPath);
  run(
    process.execPath,
    [join(root, "scripts", "verify", "llama-peer.mjs"), referencePath, answerPath, modelPath],
    install,
  );
  // One file is enough for a rollout; the package is found in the folder of the process.
  const out = join(work, `rollout-${process.pid}`);
  run(
    process.execPath,
    [
      ...[join(root, "dist", "cli", "main.js"), "rollout", "--gguf", modelPath, "--tasks", "0-3", "--group-size", "2"],
      ...["--max-turns", "4", "--quiet", "--out", out],
    ],
    install,
  );
  run(process.execPath, [join(root, "dist", "cli", "main.js"), "doctor", "engine", "--gguf", modelPath], install);
  const { compareEngines } = await import("./llama-engine.mjs");
  const path = createRequire(join(install, "package.json")).resolve("node-llama-cpp");
  const library = /** @type {import("../../dist/engines/llama-cpp/index.js").LlamaLibrary} */ (
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
