import { expect, test } from "vitest";

import { findUnnamed } from "./names.mjs";
import { findDeadReferences, findMissingModules, findWideTables } from "./references.mjs";

const repository = {
  exists: (path: string) => ["README.md", "docs/page.md", "src/core/task.ts"].includes(path),
  scripts: new Set(["check", "test:full"]),
};

test("findDeadReferences() accepts what exists, addresses and places within a page", () => {
  const text =
    "See [this](page.md#part), [that](../README.md), [there](https://example.org/x) and [here](#below): `src/core/task.ts`. " +
    "Run `npm run check` and `npm run test:full`.";
  expect([...findDeadReferences("docs/page.md", text, repository)]).toEqual([]);
});

test("findDeadReferences() names the line of every link, path and command that leads nowhere", () => {
  const text = "[gone](gone.md)\n`src/core/gone.ts`\nnpm run gone";
  expect([...findDeadReferences("docs/page.md", text, repository)]).toEqual([
    'docs/page.md:1 links to "gone.md", which does not exist.',
    "docs/page.md:2 names `src/core/gone.ts`, which does not exist.",
    'docs/page.md:3 says "npm run gone", which package.json does not have.',
  ]);
});

test("findMissingModules() finds modules that the tree does not show", () => {
  expect([...findMissingModules("src/\n  core/   words\n  lib/    helpers\n", ["core", "lib", "users"])]).toEqual([
    "README.md has no line for src/users/ in its tree.",
  ]);
});

test("findUnnamed() finds what the code knows by name and FEATURES.md does not", () => {
  expect([...findUnnamed("`llm` and `llm-2`", { user: ["llm", "human"] })]).toEqual([
    "FEATURES.md does not name the user `human`.",
  ]);
});

test("findWideTables() finds tables that do not fit a screen, not code", () => {
  const table = (width: number): string => `| head |\n|${"-".repeat(width - 2)}|\n| cell |`;
  expect([...findWideTables("a.md", `text\n${table(121)}\n\n${table(120)}`)]).toEqual([
    "a.md:2 has a table of 121 columns, 120 is the most: write it as a list.",
  ]);
  expect([...findWideTables("a.md", `\`\`\`\n${table(200)}\n\`\`\``)]).toEqual([]);
});
