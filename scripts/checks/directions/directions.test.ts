import { expect, test } from "vitest";

import { checkDirections } from "./check.mjs";
import { findCycles } from "./cycles.mjs";
import { findDirectionProblems } from "./problems.mjs";
import { readImports } from "./read-imports.mjs";

// A tree of four modules: core at the bottom, two pumps that must not import each other, and a
// boiler on top.
const sound = {
  "index.ts": 'export { boil } from "./boiler/index.ts";',
  "core/heat.ts": "export type Heat = number;",
  "pumps/water/index.ts":
    'import type { Heat } from "../../core/heat.ts"; export { turn } from "./wheel.ts"; export type { Heat };',
  "pumps/water/wheel.ts": 'import { spin } from "wheels"; export const turn = spin;',
  "pumps/air/index.ts": "export const blow = 1;",
  "boiler/index.ts": 'export { boil } from "./boil.ts";',
  "boiler/boil.ts":
    'import type { Heat } from "../core/heat.ts"; import { turn } from "../pumps/water/index.ts"; export const boil = turn as Heat;',
  "boiler/boil.test.ts":
    'import { test } from "vitest"; import { readFile } from "node:fs"; import { blow } from "../pumps/air/index.ts"; test(blow, readFile);',
};

function problemsOf(changes: Readonly<Record<string, string>> = {}): string[] {
  return findDirectionProblems({
    modules: {
      core: { imports: [], browser: true, open: true },
      "pumps/*": { imports: ["core"], packages: { wheels: "pumps/water/wheel.ts" } },
      boiler: { imports: ["core", "pumps/*"], browser: true, entries: ["valve.ts"] },
      attic: { imports: ["boiler"] },
      roof: { imports: ["*"], except: ["attic"] },
    },
    packageEntry: "index.ts",
    openToTests: [],
    sources: new Map(Object.entries({ ...sound, ...changes })),
    dependencies: new Set(["wheels"]),
    devDependencies: new Set(["vitest"]),
  });
}

test("findDirectionProblems() finds nothing in a tree that keeps its table", () => {
  expect(problemsOf()).toEqual([]);
});

test.each([
  [
    "a module that may not be imported",
    { "core/up.ts": 'import "../boiler/index.ts";' },
    'may import no module, not "boiler"',
  ],
  ["a type from such a module", { "core/up.ts": 'import type { B } from "../boiler/index.ts";' }, 'not "boiler"'],
  ["a re-export from such a module", { "core/up.ts": 'export * from "../boiler/index.ts";' }, 'not "boiler"'],
  ["an adapter that imports its neighbour", { "pumps/air/x.ts": 'import "../water/index.ts";' }, 'not "pumps/water"'],
  [
    "a file behind a entry",
    { "boiler/x.ts": 'import "../pumps/water/wheel.ts";' },
    'past the public entry of module "pumps/water"',
  ],
  [
    "a file behind a entry, from a test",
    { "core/x.test.ts": 'import "../boiler/boil.ts";' },
    'past the public entry of module "boiler"',
  ],
  ["an undeclared package", { "boiler/x.ts": 'import "steam";' }, 'package "steam" is not declared'],
  ["a development package outside tests", { "boiler/x.ts": 'import "vitest";' }, 'package "vitest" is not declared'],
  [
    "a package outside its place",
    { "pumps/water/x.ts": 'import "wheels/round";' },
    'belongs to "pumps/water/wheel.ts" alone',
  ],
  [
    "a package in a module without it",
    { "boiler/x.ts": 'import "wheels";' },
    'module "boiler" may not import package "wheels"',
  ],
  ["Node where a browser runs", { "core/x.ts": 'import "node:fs";' }, "nothing of Node"],
  ["Node without its prefix", { "pumps/air/x.ts": 'import "fs/promises";' }, 'write "node:fs/promises"'],
  [
    "a helper of tests outside tests",
    { "core/x.ts": 'import "./y.test-helper.ts";', "core/y.test-helper.ts": "" },
    "only tests",
  ],
  ["a file that is not there", { "core/x.ts": 'import "./y.js";' }, "no such file"],
  ["a file outside src/", { "core/x.ts": 'import "../../package.json";' }, "outside src/"],
  ["the entry of the package", { "boiler/x.ts": 'import "../index.ts";' }, "for its users"],
  [
    "an exception from every module",
    { "roof/x.ts": 'import "../attic/index.ts";', "attic/index.ts": 'import "../boiler/index.ts";' },
    'not "attic"',
  ],
  ["code that the user names", { "boiler/x.ts": "await import(process.argv[2]);" }, "only known at run time"],
  ["a folder that is not a module", { "cellar/x.ts": "" }, "src/cellar/x.ts is in no module"],
])("findDirectionProblems() refuses %s", (_, changes, sentence) => {
  const problems = problemsOf(changes);
  expect(problems).toHaveLength(1);
  expect(problems[0]).toContain(sentence);
});

test("findDirectionProblems() names the file and the line", () => {
  expect(problemsOf({ "core/x.ts": '// Header.\n\nimport fs from "node:fs";' })[0]).toMatch(
    /^src\/core\/x\.ts:3 imports "node:fs"/,
  );
});

test("findDirectionProblems() allows contract files beside the entry", () => {
  expect(problemsOf({ "boiler/valve.ts": "", "attic/x.ts": 'import "../boiler/valve.ts";' })).toEqual([]);
});

test("findDirectionProblems() refuses files that import each other in a circle, types included", () => {
  expect(
    problemsOf({ "core/a.ts": 'import type { B } from "./b.ts";', "core/b.ts": 'import type { A } from "./a.ts";' }),
  ).toEqual(["Files import each other in a circle: src/core/a.ts → src/core/b.ts → src/core/a.ts."]);
});

test("findDirectionProblems() refuses a permission that no file uses, once both modules are built", () => {
  expect(
    problemsOf({ "boiler/boil.ts": 'import type { Heat } from "../core/heat.ts"; export const boil: Heat = 1;' }),
  ).toEqual(['Module "boiler" may import "pumps/*" and no file of it does: take the permission out of the table.']);
  expect(problemsOf({ "attic/x.ts": "" })).toEqual([
    'Module "attic" may import "boiler" and no file of it does: take the permission out of the table.',
  ]);
  expect(problemsOf({ "pumps/water/wheel.ts": "export const turn = 1;" })).toEqual([
    'Module "pumps/*" may import "wheels" and no file of it does: take the permission out of the table.',
  ]);
});

test("readImports() sees every form of import and no text that only looks like one", () => {
  const source = [
    'import "a";',
    'import type { B } from "b";',
    'export { c } from "c";',
    'export type * from "d";',
    'const e = await import("e");',
    "const f = await import(`f${e}`);",
    "// import 'g';",
    'const h = `import "h"`;',
  ].join("\n");
  expect(readImports("x.ts", source).map(({ specifier }) => specifier)).toEqual(["a", "b", "c", "d", "e", null]);
  expect(
    readImports("x.ts", source)
      .map(({ isReexportOfAll }) => isReexportOfAll)
      .indexOf(true),
  ).toBe(3);
  const loading = readImports("x.ts", source).filter(({ isLoading }) => isLoading);
  expect(loading.map(({ specifier }) => specifier)).toEqual(["a", "c"]);
  expect(readImports("x.ts", 'import { type A, b } from "c"; import { type D } from "e";')).toMatchObject([
    { specifier: "c", isLoading: true },
    { specifier: "e", isLoading: false },
  ]);
});

test("findCycles() finds a circle through several nodes, and none in a tree", () => {
  expect(
    findCycles(
      new Map([
        ["a", ["b", "c"]],
        ["b", ["c"]],
        ["c", []],
      ]),
    ),
  ).toEqual([]);
  expect(
    findCycles(
      new Map([
        ["a", ["b"]],
        ["b", ["c"]],
        ["c", ["b"]],
      ]),
    ),
  ).toEqual([["b", "c", "b"]]);
});

test("checkDirections() reads the real tree", () => {
  expect(Number.parseInt(checkDirections().summary, 10)).toBeGreaterThan(50);
});
