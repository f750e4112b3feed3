// Every chat template in a package of PyPI: TRL's wheel has those of the families that it trains,
// Xinference's wheel (in JSON) those of the models that it serves, and the source distributions of
// vLLM and llama-cpp-python those that the servers ship and test with. SGLang's wheel and that of
// `renderers` have none. They are unpacked into build/, never committed.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { templateFingerprint } from "../../../dist/renderers/template-text.js";
import { root } from "../../run-command.mjs";
import { CannotVerify, findUv, installInto } from "../python.mjs";

/** @typedef {"shared" | "trl" | "vllm" | "llama.cpp" | "xinference"} Source */
/**
 * `names`: names of all templates with this text.
 *
 * @typedef {{ readonly names: readonly string[], readonly chatTemplate: string }} PublishedTemplate
 */
/** @typedef {{ readonly name: string, readonly chatTemplate: string }} NamedTemplate */

export const packages = [
  { source: "trl", packageName: "trl", version: "1.16.0" },
  { source: "vllm", packageName: "vllm", version: "0.33.0" },
  { source: "llama.cpp", packageName: "llama-cpp-python", version: "0.3.36" },
  { source: "xinference", packageName: "xinference", version: "4.1.0" },
];
const wheels = ["trl", "xinference"];
const work = join(root, "build", "verify", "families");

/**
 * Unpacks missing packages, and writes each template to build/templates by its fingerprint, where
 * tests look for it.
 *
 * @param {{ readonly quick: boolean }} options `quick`: of TRL only.
 */
export function installFamilies({ quick }) {
  for (const { packageName, version } of quick ? packages.slice(0, 1) : packages) {
    const folder = join(work, packageName);
    if (wheels.includes(packageName)) installInto(folder, `${packageName}==${version}`);
    else unpackSource(packageName, version, folder);
  }
  const folder = join(root, "build", "templates");
  mkdirSync(folder, { recursive: true });
  for (const { chatTemplate } of templatesAtHand({ quick })) {
    writeFileSync(join(folder, `${templateFingerprint(chatTemplate)}.jinja`), chatTemplate);
  }
}

/** @param {string} packageName @param {string} version @param {string} folder */
function unpackSource(packageName, version, folder) {
  const stamp = join(folder, "unpacked.txt");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === version) return;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  const python = join(dirname(findUv()), process.platform === "win32" ? "python.exe" : "python");
  const script = join(import.meta.dirname, "unpack.py");
  const { status, stderr } = spawnSync(python, [script, packageName, version, folder], { encoding: "utf8" });
  if (status !== 0) throw new CannotVerify(`Cannot verify: unpacking ${packageName} ${version} failed: ${stderr}`);
  writeFileSync(stamp, version);
}

/**
 * Every template of the unpacked packages, and of ../shared/models if present, each text once.
 *
 * @param {{ readonly quick: boolean }} options `quick`: those of TRL and ../shared.
 * @returns {readonly PublishedTemplate[]}
 */
export function templatesAtHand({ quick }) {
  const shared = join(root, "..", "shared", "models");
  /** @type {readonly (readonly [Source, readonly NamedTemplate[]])[]} */
  const found = [
    ["shared", namesIn(shared).flatMap((name) => readTemplate(join(shared, name, "chat_template.jinja"), name))],
    ["trl", jinjaFiles(join(work, "trl", "trl", "chat_templates"))],
    ...(quick ? [] : /** @type {const} */ ([["vllm", jinjaFiles(join(work, "vllm"))], ["llama.cpp", jinjaFiles(join(work, "llama-cpp-python"))], ["xinference", modelTemplates(join(work, "xinference", "xinference", "model", "llm", "models"))]])), // prettier-ignore
  ];
  /** @type {Map<string, { names: string[], chatTemplate: string }>} */
  const byText = new Map();
  for (const [source, templates] of found) {
    for (const { name, chatTemplate } of templates) {
      const same = byText.get(chatTemplate.trim()) ?? { names: [], chatTemplate };
      byText.set(chatTemplate.trim(), same);
      if (!same.names.includes(`${source}/${name}`)) same.names.push(`${source}/${name}`);
    }
  }
  return [...byText.values()];
}

/** @param {string} folder */
const namesIn = (folder) => (existsSync(folder) ? readdirSync(folder).toSorted() : []);

/** @param {string} file @param {string} name @returns {readonly NamedTemplate[]} */
const readTemplate = (file, name) => (existsSync(file) ? [{ name, chatTemplate: readFileSync(file, "utf8") }] : []);

/**
 * Chat templates only: templates for embedding and ranking write a query and documents instead.
 *
 * @param {string} folder
 */
function jinjaFiles(folder) {
  return namesIn(folder)
    .filter((file) => file.endsWith(".jinja") && !file.startsWith("examples+pooling"))
    .flatMap((file) => {
      const name = file.slice(file.lastIndexOf("+") + 1).replace(/\.jinja$/, "");
      return readTemplate(join(folder, file), file.startsWith("rust") ? `tests/${name}` : name);
    });
}

/**
 * Templates of Xinference, whose files describe one or several models each.
 *
 * @param {string} folder @returns {readonly NamedTemplate[]}
 */
function modelTemplates(folder) {
  return namesIn(folder).flatMap((file) => {
    const content = /** @type {unknown} */ (JSON.parse(readFileSync(join(folder, file), "utf8")));
    const models = /** @type {readonly { model_name: string, chat_template?: string | null }[]} */ ([content].flat());
    return models.flatMap(({ model_name: name, chat_template: chatTemplate }) =>
      typeof chatTemplate === "string" && chatTemplate.includes("{") ? [{ name, chatTemplate }] : [],
    );
  });
}
