// `npm run verify -- encoders`: the modules that SGLang and vLLM use to build prompts for models
// without a chat template, taken from their wheels, compared with our encoders, with the vendors'
// own sentences: random conversations, compared byte for byte.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { createRandom } from "../../dist/lib/random.js";
import { dumpJson } from "../../dist/python-semantics/json/index.js";
import { ChatTemplateError, encoderOf, segmentsText } from "../../dist/renderers/index.js";
import { root } from "../run-command.mjs";
import { randomRequest } from "./encoders/conversations.mjs";
import { CannotVerify, findUv } from "./python.mjs";

const work = join(root, "build", "verify", "encoders");
const oracle = join(root, "scripts", "verify", "encoders", "oracle.py");

/** Wheel of each module; Python 3.11 has wheels of both. */
const wheels = [
  {
    packageName: "sglang",
    version: "0.5.23",
    paths: ["sglang/srt/entrypoints/openai/encoding_dsv32.py", "sglang/srt/parser/glm53_chat_template.py"],
  },
  {
    packageName: "vllm",
    version: "0.33.0",
    paths: [
      ...["deepseek_v4", "deepseek_v4_encoding", "deepseek_v41", "deepseek_v41_encoding"].map(
        (module) => `vllm/tokenizers/${module}.py`,
      ),
      ...["inkling", "inkling_encoding"].map((module) => `vllm/renderers/${module}.py`),
    ],
  },
];

/** The module that contains a vendor's sentences, by the model type in config.json. */
const encoders = {
  deepseek_v32: "sglang/srt/entrypoints/openai/encoding_dsv32.py",
  deepseek_v4: "vllm/tokenizers/deepseek_v4_encoding.py",
  deepseek_v41: "vllm/tokenizers/deepseek_v41_encoding.py",
  glm_moe_dsa: "sglang/srt/parser/glm53_chat_template.py",
  inkling: "vllm/renderers/inkling_encoding.py",
};

/** @typedef {{ readonly text?: string, readonly refused?: string }} Answer */

/** Unpacks the modules, and returns the Python that runs them. */
export function installEncoders() {
  const python = hostPython();
  for (const wheel of wheels) unpackModules(work, wheel);
  return python;
}

const hostPython = () => join(dirname(findUv()), process.platform === "win32" ? "python.exe" : "python");

/**
 * Unpacks a few modules of a large wheel into `modules` of a folder.
 *
 * @param {string} folder
 * @param {{ readonly packageName: string, readonly version: string, readonly paths: readonly string[] }} wheel A path that ends in "/" is all that is under it.
 * @returns {string} The folder of the modules.
 */
export function unpackModules(folder, { packageName, version, paths }) {
  const python = hostPython();
  const modules = join(folder, "modules");
  const stamp = join(folder, `${packageName}.json`);
  const wanted = JSON.stringify({ version, paths });
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return modules;
  const download = join(folder, `${packageName}-wheel`);
  mkdirSync(download, { recursive: true });
  const platforms = ["manylinux_2_34_x86_64", "manylinux_2_28_x86_64"].flatMap((name) => ["--platform", name]);
  run(python, [
    ...["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version", "3.11"],
    ...[...platforms, "--dest", download, `${packageName}==${version}`],
  ]);
  const [file = ""] = readdirSync(download);
  run(python, [oracle, "unpack", join(download, file), modules, ...paths]);
  rmSync(download, { recursive: true });
  writeFileSync(stamp, wanted);
  return modules;
}

/** @param {string} python @param {readonly string[]} parameters @param {string} [input] */
function run(python, parameters, input) {
  const options = { encoding: /** @type {const} */ ("utf8"), input, maxBuffer: 2 ** 30 };
  const { status, stdout, stderr } = spawnSync(python, parameters, options);
  if (status === 0) return stdout;
  throw new CannotVerify(`Cannot verify: python ${parameters.slice(0, 3).join(" ")} ended with ${status}: ${stderr}`);
}

/**
 * @param {{ readonly quick: boolean }} options
 * @returns {Promise<number>} The exit code.
 */
export async function verifyEncoders({ quick }) {
  const python = installEncoders();
  const started = performance.now();
  const count = quick ? 100 : 500;
  process.stdout.write(`${wheels.map(({ packageName, version }) => `${packageName} ${version}`).join(", ")}\n`);
  let different = 0;
  for (const [modelType, module] of Object.entries(encoders)) {
    const row = encoderOf(new Map([["model_type", modelType]]));
    if (row === null) throw new Error(`There is no encoder for ${modelType}.`);
    const encoder = await row.load([readFileSync(join(work, "modules", module), "utf8")]);
    const requests = Array.from({ length: count }, (_, seed) => randomRequest(createRandom(seed), encoder));
    const lines = requests.map(({ messages, tools, kwargs }) =>
      dumpJson(new Map([["encoder", row.name], ["messages", messages], ["tools", tools], ["variables", kwargs]])),
    ); // prettier-ignore
    const answers = run(python, [oracle, join(work, "modules")], lines.join("\n"))
      .trim()
      .split("\n");
    const counts = { equal: 0, different: 0, bothRefuse: 0 };
    for (const [index, request] of requests.entries()) {
      const theirs = /** @type {Answer} */ (JSON.parse(answers[index] ?? "{}"));
      const ours = render(encoder, request);
      if (theirs.refused !== undefined && ours.refused !== undefined) counts.bothRefuse += 1;
      else if (theirs.text !== undefined && theirs.text === ours.text) counts.equal += 1;
      else {
        counts.different += 1;
        if (counts.different > 3) continue;
        process.stdout.write(
          `    ${lines[index]}\n      server ${JSON.stringify(theirs)}\n      ours   ${JSON.stringify(ours)}\n`,
        );
      }
    }
    different += counts.different;
    process.stdout.write(
      `  ${row.name.padEnd(16)} ${counts.equal} equal, ${counts.different} different, ${counts.bothRefuse} that both refuse\n`,
    );
  }
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  process.stdout.write(`${count} conversations each, ${different} different, in ${seconds} s\n`);
  return different === 0 ? 0 : 1;
}

/**
 * @param {import("../../dist/renderers/index.js").PromptEncoder} encoder
 * @param {ReturnType<typeof randomRequest>} request
 * @returns {Answer}
 */
function render(encoder, request) {
  try {
    const context = { specialTokens: new Map(), now: null };
    return { text: segmentsText(encoder({ ...request, addGenerationPrompt: true, context })) };
  } catch (error) {
    if (error instanceof ChatTemplateError) return { refused: `${error.kind}: ${error.message}` };
    throw error;
  }
}
