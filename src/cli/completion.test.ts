// The scripts of `completion` in the shells themselves, where these are installed; their syntax and
// the words that they offer.

import { execFileSync, spawnSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestCli, type TestCli } from "./cli.test-helper.ts";

let cli: TestCli;
beforeAll(async () => {
  cli = await createTestCli();
  for (const shell of ["bash", "zsh", "fish"]) {
    const { stdout } = await cli.run("completion", shell);
    writeFileSync(join(cli.folder, `complete.${shell}`), stdout);
  }
  // The first one loads every command.
}, 60_000);
afterAll(() => rmSync(cli.folder, { recursive: true, force: true }));

const isMissing = (shell: string): boolean => spawnSync(shell, ["-c", "exit"]).status !== 0;
const run = (shell: string, ...argv: string[]): readonly string[] =>
  execFileSync(shell, argv, { cwd: cli.folder, encoding: "utf8" })
    .split("\n")
    .filter((line) => line !== "");

/** Words on the line, the last of which is completed, and some that are offered and some that are not. */
const lines: readonly (readonly [readonly string[], readonly string[], readonly string[]])[] = [
  [["roll"], ["rollout"], ["eval", "--env"]],
  [
    ["rollout", "--engine", ""],
    ["sglang", "vllm", "llama-cpp", "embedded", "expert", "none"],
    ["own", "--env"],
  ],
  [["rollout", "--env", "tau-bench/"], ["tau-bench/retail", "tau-bench/airline"], ["bookshop"]],
  [
    ["rollout", "--user", "re"],
    ["react", "reflection"],
    ["replay", "llm"],
  ],
  [["env-server", "--user-c"], ["--user-compat"], ["--engine"]],
  [["export", "run", "--format", "s"], ["slime", "sft", "samples"], ["verl"]],
];

describe.skipIf(isMissing("bash"))("bash (skipped where it is not installed)", () => {
  it.each(lines)("completes %j", (words, offered, others) => {
    const typed = ["trainable-agents", ...words].map((word) => `'${word}'`).join(" ");
    const script = `source complete.bash; COMP_WORDS=(${typed}); COMP_CWORD=${words.length}; _trainable_agents; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const found = run("bash", "-c", script);
    expect(found).toEqual(expect.arrayContaining([...offered]));
    for (const other of others) expect(found).not.toContain(other);
  });

  it("is registered for the program", () => {
    expect(run("bash", "-c", "source complete.bash; complete -p trainable-agents").join("")).toContain(
      "-F _trainable_agents",
    );
  });
});

describe.skipIf(isMissing("fish"))("fish (skipped where it is not installed)", () => {
  it.each(lines)("completes %j", (words, offered, others) => {
    const typed = ["trainable-agents", ...words].join(" ");
    const found = run("fish", "--no-config", "-c", `source complete.fish; complete -C '${typed}'`);
    const names = found.map((line) => line.split("\t")[0]);
    expect(names).toEqual(expect.arrayContaining([...offered]));
    for (const other of others) expect(names).not.toContain(other);
  });
});

describe.skipIf(isMissing("zsh"))("zsh (skipped where it is not installed)", () => {
  // zsh completes only at a terminal, so its function runs with a `compadd` that prints what it is given.
  it.each(lines)("offers the words for %j", (words, offered, others) => {
    const typed = ["trainable-agents", ...words].map((word) => `'${word}'`).join(" ");
    const script = `compdef() { }; compadd() { shift; print -l -- "$@" }; _files() { }; source ./complete.zsh
      words=(${typed}); CURRENT=${words.length + 1}; PREFIX='${words.at(-1)}'; _trainable_agents`;
    const prefix = words.at(-1)!;
    const found = run("zsh", "-f", "-c", script).filter((word) => word.startsWith(prefix));
    expect(found).toEqual(expect.arrayContaining([...offered]));
    for (const other of others) expect(found).not.toContain(other);
  });
});

describe("the command completion", () => {
  it("refuses a shell that it has no script for", async () => {
    const { code, stderr } = await cli.run("completion", "tcsh");
    expect([code, stderr]).toEqual([2, expect.stringContaining('Cannot complete in "tcsh"')]);
  });
});

describe("the help", () => {
  it("of every command lists at most 15 flags, and all of them with --help-all", async () => {
    const commands = [...(await cli.run("--help")).stdout.matchAll(/^ {2}(\w[\w-]*) .*[[<]/gm)].map(
      ([, name]) => name!,
    );
    expect(commands.length).toBeGreaterThan(20);
    const flagsOf = (text: string): readonly string[] =>
      [...text.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, flag]) => flag!);
    for (const name of commands.filter((one) => one !== "help")) {
      const short = flagsOf((await cli.run(name, "--help")).stdout);
      const all = flagsOf((await cli.run(name, "--help-all")).stdout);
      expect([name, short.length]).toEqual([name, Math.min(short.length, 15)]);
      expect(all).toEqual(expect.arrayContaining([...short]));
    }
    expect(flagsOf((await cli.run("eval", "--help-all")).stdout)).toContain("--judge-cache");
  });

  it("of the program has -v for the version", async () => {
    const [short, long] = [await cli.run("-v"), await cli.run("--version")];
    expect(short).toEqual(long);
    expect(short).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) as string });
  });
});
