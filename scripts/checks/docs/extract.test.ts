import { expect, test } from "vitest";

import { extractExamples } from "./extract.mjs";

const markdown = [
  "# Title",
  "```ts",
  "const one = 1;",
  "```",
  "```sh",
  "npm start",
  "```",
  "- in a list",
  "  ```ts continue run",
  "  const two = one + 1;",
  "  ```",
  "```ts file=examples/01.ts",
  "export {};",
  "```",
].join("\n");

test("extractExamples() takes the TypeScript of Markdown, joins what continues, and knows what is run or shown", () => {
  expect(extractExamples("docs/page.md", markdown)).toEqual([
    { place: "docs/page.md:2", code: "const one = 1;\nconst two = one + 1;\n", runs: true, file: null },
    { place: "docs/page.md:12", code: "export {};\n", runs: false, file: "examples/01.ts" },
  ]);
});

const source = [
  "/**",
  " * Adds.",
  " *",
  " * ```ts",
  " * not.an.example;",
  " * ```",
  " *",
  " * @example",
  " * ```ts run",
  " * add(1,",
  " *   2);",
  " * ```",
  " * @param first one",
  " */",
  "export const add = 1;",
].join("\n");

test("extractExamples() takes what stands below @example in docstrings, at its line", () => {
  expect(extractExamples("src/add.ts", source)).toEqual([
    { place: "src/add.ts:9", code: "add(1,\n  2);\n", runs: true, file: null },
  ]);
});

test("extractExamples() refuses a word it does not know", () => {
  expect(() => extractExamples("a.md", "```ts fast\n```")).toThrow(
    'Cannot read the example at a.md:1: "fast" means nothing',
  );
  expect(() => extractExamples("a.md", "```ts continue\n```")).toThrow("there is none before it");
});
