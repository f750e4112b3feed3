// Names that JavaScript gives every object, used as names of a world, and a world that adds names
// to every object.

import { readFile, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { restoreGlobals } from "../lib/global-guard.ts";
import { createTestCli } from "./cli.test-helper.ts";

const bookshop = pathToFileURL(join(import.meta.dirname, "../../dist/environments/bookshop/index.js")).href;
const names = ["__proto__", "constructor", "toString", "hasOwnProperty"];

const world = `
import { bookshopSource } from ${JSON.stringify(bookshop)};
const names = ${JSON.stringify(names)};
const source = bookshopSource();
const originals = new Map();
const record = (item) => Object.fromEntries(names.map((name, at) => [name, item(name, at)]));
export default {
  ...source,
  name: "__proto__",
  splits: ["test"],
  taskset: () => ({
    environment: "__proto__", split: "test", size: names.length,
    task: (at) => {
      const task = source.taskset("validation").task(at);
      const shown = { ...task, id: names[at] };
      originals.set(shown.id, task);
      return shown;
    },
  }),
  open: async (task, options) => {
    const environment = await source.open(originals.get(task.id), options);
    return {
      task, guidelines: environment.guidelines, tools: environment.tools, info: environment.info, userSide: null,
      call: (call, more) => environment.call(call, more),
      receiveUtterance: (text, more) => environment.receiveUtterance(text, more),
      grade: async (ending, more) => ({
        ...(await environment.grade(ending, more)),
        metrics: record((_, at) => at + 1),
      }),
    };
  },
};`;

describe("names that every object has", () => {
  it("are names of tasks and metrics like others, in files and in what commands print", async () => {
    const { run, folder } = await createTestCli();
    await writeFile(join(folder, "world.mjs"), world);
    const flags = ["--engine", "embedded", "--model", "bookshop-nano", "--env", "./world.mjs", "--out", "run"];
    const rollout = await run("rollout", ...flags);
    expect([rollout.code, rollout.stderr]).toEqual([0, expect.not.stringContaining("Warning")]);
    const lines = (await readFile(join(folder, "run", "episodes.jsonl"), "utf8")).trim().split("\n");
    for (const line of lines)
      expect(line).toContain('"metrics":{"__proto__":1,"constructor":2,"toString":3,"hasOwnProperty":4}');
    expect((await run("inspect", "run", "1")).stdout).toContain("__proto__ 1, constructor 2, toString 3");
    const compared = await run("compare", "run", "run", "--all");
    for (const name of names) expect(compared.stdout).toMatch(new RegExp(`^  ${name} `, "m"));
    expect(Object.keys(Object.prototype)).toEqual([]);
  });

  it.each([
    ["when it is loaded", "Object.prototype.extra = () => 1;"],
    ["when it is opened", "", "Object.prototype.late = 5;"],
    ["in lists", "Array.prototype.extra = 1;"],
  ])("are not given by a world: %s", async (_, loaded, opened = "") => {
    const { run, folder } = await createTestCli();
    await writeFile(
      join(folder, "world.mjs"),
      `import { bookshopSource } from ${JSON.stringify(bookshop)};
      const source = bookshopSource();
      ${loaded}
      export default { ...source, open: (task, options) => { ${opened} return source.open(task, options); } };`,
    );
    try {
      const { code, stderr } = await run(
        "rollout",
        "--engine",
        "expert",
        "--env",
        "./world.mjs",
        "--tasks",
        "0",
        "--out",
        "run",
      );
      expect([code, stderr]).toEqual([2, expect.stringMatching(/adds "(extra|late)" to (Object|Array)\.prototype/)]);
      expect(existsSync(join(folder, "run"))).toBe(false);
    } finally {
      for (const name of ["extra", "late"]) {
        Reflect.deleteProperty(Object.prototype, name);
        Reflect.deleteProperty(Array.prototype, name);
      }
    }
    // A world that was refused leaves nothing to be restored in later episodes.
    restoreGlobals();
    expect([Object.keys(Object.prototype), Object.keys(Array.prototype)]).toEqual([[], []]);
  });
});
