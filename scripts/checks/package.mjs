// `npm run check -- package`: the package as users get it. It is packed, installed in an empty
// folder and run from the command line, and a small program that imports every subpath is
// type-checked and run there.

import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { pageSize } from "../build-viewer.mjs";
import { undocumentedSettings } from "../document-settings.mjs";
import { root, runCommand } from "../run-command.mjs";
import { modules } from "./directions/table.mjs";
import { readManifest } from "./manifest.mjs";

/** @returns {Promise<{ problems: string[], summary: string }>} */
export async function checkPackage() {
  const folder = mkdtempSync(join(tmpdir(), "trainable-agents-package-"));
  try {
    /** @type {string[]} */
    const problems = [];
    for (const step of [
      packAndInstall,
      judgeInstalled,
      useCommandLine,
      playOwnEnvironment,
      beginEnvironment,
      useLibrary,
    ]) {
      problems.push(...(await step(folder)));
      if (problems.length > 0) break;
    }
    return { problems, summary: problems.length === 0 ? describe(folder) : "" };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** @param {string} folder */
const installedIn = (folder) => join(folder, "node_modules", readManifest().name);

/** @param {string} folder */
export async function packAndInstall(folder) {
  const packed = await runCommand("npm", ["pack", "--loglevel=error", "--pack-destination", folder]);
  if (packed.code !== 0) return [`npm pack failed:\n${packed.output}`];
  const tarball = readdirSync(folder).find((file) => file.endsWith(".tgz")) ?? "";
  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
  const flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"];
  const installed = await runCommand("npm", ["install", ...flags, `./${tarball}`], { cwd: folder });
  return installed.code === 0 ? [] : [`npm install of the tarball failed:\n${installed.output}`];
}

/**
 * Checks that the package contains nothing of the repository, that nothing is missing, and that no
 * dependency builds or runs anything on install.
 *
 * @param {string} folder
 */
function judgeInstalled(folder) {
  const own = filesOf(installedIn(folder));
  const isOurs =
    /^(?:package\.json|README\.md|FEATURES\.md|LICENSE|docs\/.*\.(?:md|svg|webp)|examples\/.*\.(?:ts|mjs|py|sh|jsonl?|jinja|md)|examples\/harbor\/[a-z-]+\/(?:task\.toml|environment\/.*)|python\/(?:pyproject\.toml|trainable_agents\/.*(?:\.py|py\.typed))|models\/[^/]+\/(?:[\w-]+\.json|model\.safetensors|training-log\.csv|README\.md)|dist\/.*\.(?:js|d\.ts|wasm)|dist\/viewer\/page\/app\.css)$/;
  const problems = [
    ...pageSize().problems,
    ...own
      .filter((file) => !isOurs.test(file) || /\.test\b|\.test-helper\b/.test(file))
      .map((file) => `The package carries "${file}".`),
    ...["README.md", "LICENSE", "FEATURES.md"]
      .filter((file) => !own.includes(file))
      .map((file) => `The package lacks "${file}".`),
    ...own
      .filter((file) => /^dist\/api\/.*\.d\.ts$/.test(file))
      .flatMap((file) => undocumentedSettings(readFileSync(join(installedIn(folder), file), "utf8")))
      .map((key) => `The declarations do not say what setting "${key}" means.`),
  ];
  for (const file of filesOf(join(folder, "node_modules"))) {
    if (file.endsWith(".node")) problems.push(`A required dependency brings a native binary: "${file}".`);
    if (!/^(?:@[^/]+\/)?[^/@]+\/package\.json$/.test(file)) continue;
    const text = readFileSync(join(folder, "node_modules", file), "utf8");
    if (/"(?:preinstall|install|postinstall)":/.test(text))
      problems.push(`A required dependency has an install script: "${file}".`);
  }
  return problems;
}

/** @param {string} folder */
async function useCommandLine(folder) {
  const trainableAgents = (/** @type {string[]} */ ...parameters) =>
    runCommand("npx", ["--no-install", "--loglevel=error", "trainable-agents", ...parameters], { cwd: folder });
  const help = await trainableAgents("--help");
  if (help.code !== 0 || !help.output.includes("rollout"))
    return [`--help ended with code ${help.code}:\n${help.output}`];
  /** @type {string[]} */
  const problems = [];
  for (const engine of ["expert", "embedded"]) {
    const rollout = `rollout --env bookshop --engine ${engine} --tasks 0-3 --group-size 2 --seed 1 --write-samples --out run-${engine}`;
    const { code, output } = await trainableAgents(...rollout.split(" "));
    if (code !== 0) problems.push(`A bookshop rollout with engine "${engine}" ended with code ${code}:\n${output}`);
    const empty = ["run.json", "episodes.jsonl", "samples.jsonl"].filter((name) => {
      const file = join(folder, `run-${engine}`, name);
      return !existsSync(file) || statSync(file).size === 0;
    });
    problems.push(...empty.map((name) => `The bookshop rollout with engine "${engine}" left no "${name}".`));
  }
  const example = await trainableAgents("example", "01");
  if (example.code !== 0 || !example.output.includes("reward      1"))
    problems.push(`Example 01 ended with code ${example.code}:\n${example.output}`);
  return problems;
}

/**
 * The environment of docs/environments.md in a user's file: its imports are found, and output is
 * written to the user's working folder.
 *
 * @param {string} folder
 */
async function playOwnEnvironment(folder) {
  copyFileSync(join(installedIn(folder), "examples", "01-an-environment.ts"), join(folder, "my-env.ts"));
  const flags = "rollout --env ./my-env.ts --engine embedded --model bookshop-nano --tasks 0 --max-turns 2";
  const command = ["--no-install", "--loglevel=error", "trainable-agents", ...flags.split(" ")];
  const { code, output } = await runCommand("npx", command, { cwd: folder });
  if (code !== 0) return [`A rollout of an environment of the user's ended with code ${code}:\n${output}`];
  const [run = ""] = existsSync(join(folder, "runs")) ? readdirSync(join(folder, "runs")) : [];
  return existsSync(join(folder, "runs", run, "episodes.jsonl"))
    ? []
    : [`A rollout without --out left no run below "runs" of the current folder:\n${output}`];
}

/**
 * The folder that `init environment` writes: its test passes with the installed packages.
 *
 * @param {string} folder
 */
async function beginEnvironment(folder) {
  const init = "--no-install --loglevel=error trainable-agents init environment museum-tours";
  const begun = await runCommand("npx", init.split(" "), { cwd: folder });
  if (begun.code !== 0) return [`"init environment" ended with code ${begun.code}:\n${begun.output}`];
  const tested = await runCommand("npm", ["test", "--silent"], { cwd: join(folder, "museum-tours") });
  return tested.code === 0 ? [] : [`The test of "init environment" ended with code ${tested.code}:\n${tested.output}`];
}

/** @param {string} folder */
async function useLibrary(folder) {
  const { name, exports } = readManifest();
  // An entry with an optional peer requires that the peer is installed.
  const subpaths = Object.keys(exports).filter(
    (subpath) => subpath !== "./package.json" && modules[subpath.slice(2)]?.peer === undefined,
  );
  const imports = subpaths.map((subpath, index) => `import * as door${index} from "${name}${subpath.slice(1)}";`);
  const doors = subpaths.map((_, index) => `door${index}`).join(", ");
  writeFileSync(
    join(folder, "consumer.ts"),
    [
      ...imports,
      'import type { Engine, Episode, Sample } from "trainable-agents";',
      `export const doors: readonly object[] = [${doors}];`,
      "export type Kept = { readonly engine: Engine; readonly episode: Episode; readonly samples: readonly Sample[] };",
      "",
    ].join("\n"),
  );
  writeFileSync(
    join(folder, "tsconfig.json"),
    JSON.stringify({
      compilerOptions: {
        target: "ES2023",
        module: "NodeNext",
        strict: true,
        exactOptionalPropertyTypes: true,
        types: ["node"],
        typeRoots: [join(root, "node_modules", "@types")],
        rootDir: ".",
        outDir: "out",
      },
      include: ["consumer.ts"],
    }),
  );
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  const compiled = await runCommand(process.execPath, [compiler, "-p", "."], { cwd: folder });
  if (compiled.code !== 0) return [`A program that imports every subpath does not compile:\n${compiled.output}`];
  const ran = await runCommand(process.execPath, [join("out", "consumer.js")], { cwd: folder });
  return ran.code === 0 && ran.output === ""
    ? []
    : [`Importing every subpath ended with code ${ran.code}:\n${ran.output}`];
}

/** @param {string} folder */
function describe(folder) {
  const files = filesOf(installedIn(folder));
  const bytes = files.reduce((sum, file) => sum + statSync(join(installedIn(folder), file)).size, 0);
  return `${files.length} files, ${(bytes / 1e6).toFixed(1)} MB unpacked`;
}

/**
 * @param {string} folder
 * @returns {string[]} Files below it, with slashes.
 */
function filesOf(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) =>
      join(entry.parentPath, entry.name)
        .slice(folder.length + 1)
        .replaceAll("\\", "/"),
    );
}
