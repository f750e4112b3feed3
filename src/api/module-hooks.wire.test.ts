// Modules of users, loaded by this Node from folders as "npm init" makes them; `npm run verify --
// node` runs this on other versions of Node.

import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, it } from "vitest";

const root = join(import.meta.dirname, "../..");
const folders: string[] = [];
afterAll(async () => {
  for (const folder of folders) await rm(folder, { recursive: true });
});

const literal = `({ name, guidelines: "Switch it.", tasks: { test: [{ state: {} }] }, grade: () => 1,
  tools: { switch_lamp: { description: "Does it.", parameters: { type: "object", properties: {} }, run: () => 1 } } })`;
const esModule = (types: string) => `
import { defineEnvironment } from "trainable-agents/environments";
import { lamp } from "./lamp.${types === "" ? "js" : "ts"}";
const name${types} = lamp;
export default defineEnvironment(${literal.replace("name,", "name: `${name}, required as import.meta`,")});`;
const required = (types: string) => `
const { defineEnvironment } = require("trainable-agents/environments");
const name${types} = "lamp of " + require("node:path").basename(__filename) + (__dirname === "" ? "" : ".");
module.exports = defineEnvironment(${literal});`;

const modules = {
  "es.ts": esModule(": string"),
  "es.mts": esModule(": string"),
  "es.js": esModule(""),
  "es.mjs": esModule(""),
  "lamp.ts": 'export const lamp: string = "lamp";',
  "lamp.js": 'export const lamp = "lamp";',
  "required.ts": required(": string"),
  "required.cts": required(": string"),
  "required.cjs": required(""),
  "exports.ts": `exports.name = "no environment" as string;`,
  "broken.ts": `export const a = 1;\nexport default a +;`,
};

/**
 * Results of loading each module in a fresh process, by module name: the environment's name, or the
 * sentence of its error.
 */
async function load(type: string | null, names: readonly string[], { isInstalled = true } = {}) {
  const folder = await mkdtemp(join(tmpdir(), "module-hooks-"));
  folders.push(folder);
  const manifest = { name: "mine", version: "1.0.0", main: "index.js", ...(type === null ? {} : { type }) };
  await writeFile(join(folder, "package.json"), JSON.stringify(manifest));
  for (const [name, text] of Object.entries(modules)) await writeFile(join(folder, name), text);
  if (isInstalled) {
    await mkdir(join(folder, "node_modules"));
    await symlink(root, join(folder, "node_modules", "trainable-agents"), "junction");
  }
  const script = `
    import { loadEnvironment } from ${JSON.stringify(new URL("../../dist/api/load-environment.js", import.meta.url).href)};
    const loaded = {};
    for (const env of ${JSON.stringify(names)}) {
      loaded[env] = await loadEnvironment("./" + env, { cwd: process.cwd() })
        .then(({ source }) => source.name, ({ message }) => message);
    }
    process.stdout.write(JSON.stringify(loaded));`;
  const flags = ["--input-type=module", "--eval", script];
  const { stdout, stderr } = await promisify(execFile)(process.execPath, flags, { cwd: folder });
  expect(stderr).toBe("");
  return JSON.parse(stdout) as Readonly<Record<string, string>>;
}

const named = "lamp, required as import.meta";

it.each([["commonjs"], ["module"], [null]])(
  "a module in a package of type %s loads as what is written in it, or is refused with the place of its fault",
  async (type) => {
    const { "broken.ts": broken, "exports.ts": exported, ...loaded } = await load(type, Object.keys(modules));
    expect(loaded).toEqual({
      "es.ts": named,
      "es.mts": named,
      "es.js": named,
      "es.mjs": named,
      "lamp.ts": expect.stringContaining("Cannot use") as unknown,
      "lamp.js": expect.stringContaining("Cannot use") as unknown,
      "required.ts": "lamp of required.ts.",
      "required.cts": "lamp of required.cts.",
      "required.cjs": "lamp of required.cjs.",
    });
    expect(exported).toMatch(/^Cannot use ".\/exports.ts" as an environment: /);
    expect(broken).toMatch(/^Cannot load environment ".\/broken.ts": .* \(broken.ts:2:19\); correct the module/);
  },
);

it("finds this package by its name where it is not installed", async () => {
  expect(await load("commonjs", ["es.ts"], { isInstalled: false })).toEqual({ "es.ts": named });
});
