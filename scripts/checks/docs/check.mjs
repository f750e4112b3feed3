// `npm run check -- docs`: the code in documentation is type-checked against the built package as
// its users see it, and run where it says so; the numbered examples are all run; the targets of
// references exist.

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

import { root, runCommand } from "../../run-command.mjs";
import { readManifest } from "../manifest.mjs";
import { readSources } from "../read-sources.mjs";
import { findDeadCommands } from "./commands.mjs";
import { extractExamples } from "./extract.mjs";
import { findStaleFields } from "./gateway-fields.mjs";
import { findUnnamed, knownNames } from "./names.mjs";
import { findStaleParsers } from "./parser-names.mjs";
import { referenceFile, referencePage } from "./reference.mjs";
import { findDeadReferences, findMissingModules, findWideTables } from "./references.mjs";

/** @import { Example } from "./extract.mjs" */

/** Records of decisions and measurements, whose tables may be wide. */
const records = new Set(["decisions", "verification", "learner-log"].map((name) => `docs/${name}.md`));

/** Below the root, so that the package is known by its name; beside build/examples/, so that "../examples/x.ts" is found. */
const workFolder = join("build", "docs");

/** @returns {Promise<{ problems: string[], summary: string }>} */
export async function checkDocs() {
  const examples = documents().flatMap(([file, text]) => extractExamples(file, text));
  const blocks = examples.filter(({ file }) => file === null);
  const numbered = listExamples();
  const problems = [
    ...examples.flatMap(compareWithFile),
    ...findPointers(),
    ...(await findCommands()),
    ...(await findStaleReference()),
    ...(await findStaleFields()),
    ...(await findStaleParsers()),
    ...findUnnamed(readFileSync(join(root, "FEATURES.md"), "utf8"), await knownNames()),
    ...numbered.flatMap(findUnexplained),
    ...(numbered.length === 0 ? [] : await compile(["-b", "tsconfig.examples.json"])),
    ...(await compileBlocks(blocks)),
  ];
  const programs = [
    ...numbered.map((name) => ({
      place: `examples/${name}.ts`,
      program: join("build", "examples", `${name}.js`),
      leastLines: 2,
    })),
    ...blocks
      .filter(({ runs }) => runs)
      .map(({ place }) => ({ place, program: join(workFolder, `${moduleName(place)}.js`), leastLines: 0 })),
  ];
  if (problems.length === 0) {
    for (const one of programs) problems.push(...(await run(one)));
  }
  return { problems, summary: `${examples.length + numbered.length} examples, ${programs.length} run` };
}

/** The numbered examples in order, without extension. */
function listExamples() {
  return [...readSources("examples", ".ts").keys()]
    .filter((file) => /^\d\d-[^/.]*\.ts$/.test(file))
    .map((file) => file.slice(0, -".ts".length));
}

/**
 * Reports an example whose header does not state how to run it.
 *
 * @param {string} name
 */
function findUnexplained(name) {
  const [comment = ""] = /^(?:\/\/.*\n)+/.exec(readFileSync(join(root, "examples", `${name}.ts`), "utf8")) ?? [];
  const command = `npx trainable-agents example ${name.slice(0, 2)}`;
  return comment.includes(command) ? [] : [`examples/${name}.ts does not say at its top: Run: ${command}`];
}

/** @returns {(readonly [string, string])[]} */
function documents() {
  const inFolder = (/** @type {string} */ folder, /** @type {string} */ extension) =>
    [...readSources(folder, extension)].map(([file, text]) => /** @type {const} */ ([`${folder}/${file}`, text]));
  const atTop = ["README.md", "FEATURES.md", "CONTRIBUTING.md"].filter((file) => existsSync(join(root, file)));
  return [
    ...atTop.map((file) => /** @type {const} */ ([file, readFileSync(join(root, file), "utf8")])),
    ...inFolder("docs", ".md"),
    ...inFolder("models", ".md"),
    ...inFolder("src", ".ts"),
  ];
}

function* findPointers() {
  const repository = {
    exists: (/** @type {string} */ path) => existsSync(join(root, path)),
    scripts: new Set(Object.keys(readManifest().scripts)),
  };
  for (const [file, text] of documents()) {
    if (file.endsWith(".md")) yield* findDeadReferences(file, text, repository);
    if (file.endsWith(".md") && !records.has(file)) yield* findWideTables(file, text);
    if (file !== "README.md") continue;
    const modules = [...readSources("src", ".ts").keys()].filter((path) => path.includes("/"));
    yield* findMissingModules(text, new Set(modules.map((path) => path.slice(0, path.indexOf("/")))));
  }
}

async function findStaleReference() {
  const isFresh =
    existsSync(join(root, referenceFile)) &&
    readFileSync(join(root, referenceFile), "utf8") === (await referencePage());
  return isFresh
    ? []
    : [`${referenceFile} is not what the build says: run "node scripts/checks/docs/reference.mjs --write".`];
}

/** Finds commands in documents, on model cards and in the help of every command. */
async function findCommands() {
  const { commandLineProblem, runCli } = await import("../../../dist/cli/run-cli.js");
  const { signal } = new AbortController();
  const context = { env: {}, cwd: root, drain: signal, cancel: signal, program: "npx trainable-agents" };
  const silent = { write: () => true };
  const help = async (/** @type {string[]} */ ...words) => {
    let text = "";
    const stdout = { write: (/** @type {string} */ part) => (text += part) };
    await runCli([...words, "--help"], { ...context, stdout, stderr: silent });
    return text;
  };
  const commands = [...(await help()).matchAll(/^ {2}(\w[\w-]*) .*[[<]/gm)].map(([, name = ""]) => name);
  const texts = documents().filter(([file]) => file.endsWith(".md"));
  for (const name of commands) texts.push([`the help of "${name}"`, await help(name)]);
  const repository = {
    exists: (/** @type {string} */ path, { isPrefix } = { isPrefix: false }) => {
      const [folder, name] = [join(root, dirname(path)), basename(path)];
      return existsSync(join(root, path)) || (isPrefix && readdirSync(folder).some((entry) => entry.startsWith(name)));
    },
    scripts: new Set(Object.keys(readManifest().scripts)),
    readCommandLine: (/** @type {readonly string[]} */ argv) =>
      commandLineProblem(argv, { ...context, stdout: silent, stderr: silent }),
  };
  const found = await Promise.all(texts.map(([file, text]) => findDeadCommands(file, text, repository)));
  return found.flat();
}

/** @param {Example} example */
function compareWithFile({ place, file, code }) {
  if (file === null) return [];
  if (!existsSync(join(root, file))) return [`${place} shows ${file}, which does not exist.`];
  return readFileSync(join(root, file), "utf8") === code ? [] : [`${place} does not show ${file} word for word.`];
}

/** @param {readonly Example[]} blocks */
async function compileBlocks(blocks) {
  rmSync(join(root, workFolder), { recursive: true, force: true });
  if (blocks.length === 0) return [];
  mkdirSync(join(root, workFolder), { recursive: true });
  for (const { place, code } of blocks) {
    writeFileSync(join(root, workFolder, `${moduleName(place)}.ts`), `// ${place}\n${code}\nexport {};\n`);
  }
  const settings = {
    extends: "../../tsconfig.base.json",
    // Unused variables in an example are there for the reader.
    compilerOptions: { rootDir: ".", outDir: ".", noUnusedLocals: false, noUnusedParameters: false },
    include: ["*.ts"],
    exclude: [],
  };
  writeFileSync(join(root, workFolder, "tsconfig.json"), JSON.stringify(settings));
  return compile(["-p", workFolder]);
}

/** @param {string} place */
const moduleName = (place) => place.replace(/\W+/g, "-");

/** @param {readonly string[]} parameters */
async function compile(parameters) {
  const compiler = join("node_modules", "typescript", "bin", "tsc");
  const { code, output } = await runCommand(process.execPath, [compiler, ...parameters]);
  return code === 0 ? [] : [output];
}

/** @param {{ place: string, program: string, leastLines: number }} program */
async function run({ place, program, leastLines }) {
  const { code, output } = await runCommand(process.execPath, [program]);
  if (code !== 0) return [`${place} ends with code ${code}:\n${output}`];
  return output.split("\n").length < leastLines ? [`${place} prints nothing worth reading:\n${output}`] : [];
}
