import { expect, test } from "vitest";

import { findDeadCommands } from "./commands.mjs";
import { extractCommands } from "./extract.mjs";

const page = [
  "Run `trainable-agents eval`, `serve --out x` or `npm run train -- --minutes 2`; `--tasks` is a flag.",
  "```",
  "npx trainable-agents rollout --env bookshop \\",
  "  --url http://h:1 --user-model 'a b'   # words",
  "A=b npm test -- src/core > log",
  "bookshop (test)",
  "```",
  "```console",
  "$ npx trainable-agents inspect <run folder> 36 --tokens | less",
  "1 npm is not said here",
  "```",
  "```diff",
  "- npm run old",
  "+ npx trainable-agents serve --out runs/<name> &",
  "```",
  "```ts",
  "npm run no-shell",
  "```",
].join("\n");

test("extractCommands() takes what a reader would paste or is told of, in words", () => {
  const commands = extractCommands("a.md", page);
  expect(commands.map(({ place, words, isWhole }) => [place, isWhole, ...words])).toEqual([
    ["a.md:1", false, "trainable-agents", "eval"],
    ["a.md:1", false, "trainable-agents", "serve", "--out", "x"],
    ["a.md:1", false, "npm", "run", "train", "--", "--minutes", "2"],
    [
      ...["a.md:3", true, "npx", "trainable-agents", "rollout", "--env", "bookshop"],
      ...["--url", "http://h:1", "--user-model", "a b"],
    ],
    ["a.md:5", true, "npm", "test", "--", "src/core"],
    ["a.md:9", true, "npx", "trainable-agents", "inspect", "<run folder>", "36", "--tokens"],
    ["a.md:14", true, "npx", "trainable-agents", "serve", "--out", "runs/<name>"],
  ]);
});

test("findDeadCommands() asks the command line, and whether files and scripts are there", async () => {
  const { commandLineProblem } = await import("../../../src/cli/run-cli.ts");
  const { signal } = new AbortController();
  const silent = { write: () => true };
  const context = { stdout: silent, stderr: silent, env: {}, cwd: ".", drain: signal, cancel: signal, program: "x" };
  const repository = {
    exists: (path: string) => path === "src/core" || path === "bench/loop.mjs",
    scripts: new Set(["train", "bench"]),
    readCommandLine: (argv: readonly string[]) => commandLineProblem(argv, context),
  };
  const problemsOf = (text: string) => findDeadCommands("a.md", text, repository);
  expect(await problemsOf(page)).toEqual([]);
  const block = (...lines: string[]): string => ["```sh", ...lines, "```"].join("\n");
  for (const [text, problem] of [
    [block("npx trainable-agents rollout --temprature 1"), 'did you mean "--temperature"?'],
    [block("npx trainable-agents roll --out x"), 'there is no command "roll"'],
    [block("npx trainable-agents export runs/a"), "--format is missing"],
    [block("npm run train -- --minute 2"), 'did you mean "--minutes"?'],
    [block("npm run pretrain"), 'package.json has no script "pretrain"'],
    [block("npm run bench -- gone"), "there is no bench/gone.mjs"],
    [block("npx vitest run src/gone"), 'there is no "src/gone"'],
    ["`serve --portt 1` is a flag", 'there is no option "--portt"'],
  ] as const) {
    expect(await problemsOf(text)).toEqual([expect.stringContaining(problem)]);
  }
});
