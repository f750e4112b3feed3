import { createRequire } from "node:module";
import { describe, expect, it } from "vitest";

import { createTestCli } from "./cli.test-helper.ts";

const isInstalled = ((): boolean => {
  try {
    return createRequire(import.meta.url).resolve("node-llama-cpp") !== "";
  } catch {
    return false;
  }
})();

// `npm run verify -- llama-cpp`, which installs llama.cpp, compares its samples with those of our
// own engine.
describe("--engine llama-cpp", () => {
  it.each([
    [["--engine", "llama-cpp"], "pass --gguf <file>"],
    [["--gguf", "x.gguf"], 'x.gguf": there is no such file; pass the path of a GGUF file'],
    [
      ["--gguf", "x.gguf", "--engine", "embedded"],
      'Cannot use --gguf with engine "embedded": it has no effect there; remove it, or use --engine llama-cpp.',
    ],
    [["--gguf", "x.gguf", "--model", "bookshop-nano", "--url", "http://h"], "it has no effect there"],
    [["--gguf-adapter", "a.gguf", "--engine", "embedded"], 'Cannot use --gguf-adapter with engine "embedded"'],
    [["--gguf", "x.gguf", "--model", "bookshop-nano", "--preset", "slime-tau"], "the preset speaks to SGLang"],
    [["--gguf", "x.gguf", "--agent-model", "openai/gpt"], "Cannot use --gguf with --agent-model"],
    [["--gguf", "nowhere.gguf", "--model", "bookshop-nano"], 'nowhere.gguf": there is no such file'],
  ])("refuses %j", async (flags, wanted) => {
    const { run } = await createTestCli();
    const { code, stderr } = await run("rollout", "--env", "bookshop", ...flags);
    expect(stderr).toContain(wanted);
    expect(code).toBe(2);
  });

  /** One of our models as a file, which needs no other file. */
  const withModel = async () => {
    const cli = await createTestCli();
    await cli.run("export-model", "bookshop-nano", "--to", "nano.gguf");
    return cli;
  };

  it.skipIf(isInstalled)("says how the optional package is installed", async () => {
    const { run } = await withModel();
    const { code, stderr } = await run("rollout", "--gguf", "nano.gguf");
    expect(stderr).toMatch(/run "npm install [^"]*node-llama-cpp@3/);
    expect(code).toBe(2);
  });

  it.runIf(isInstalled)("rolls out with one file and no other flag", async () => {
    const { run } = await withModel();
    const rolled = await run("rollout", "--gguf", "nano.gguf", "--tasks", "0", "--max-turns", "3", "--out", "run");
    expect([rolled.code, rolled.stdout]).toEqual([0, expect.stringMatching(/episodes +1 of 1/)]);
    expect((await run("inspect", "run", "1")).code).toBe(0);
  });

  it.each([
    [["--gguf", "x.gguf", "--url", "http://h"], "Cannot use --url, --exclusive or another --engine with --gguf"],
    [["--engine", "llama-cpp"], "no weights are named; pass --gguf <file>"],
    [["--gguf", "nowhere.gguf"], "there is no such file"],
  ])("doctor engine refuses %j", async (flags, wanted) => {
    const { run } = await createTestCli();
    const { code, stderr } = await run("doctor", "engine", ...flags);
    expect(stderr).toContain(wanted);
    expect(code).toBe(2);
  });

  it("doctor template reads the template in the file", async () => {
    const { run } = await withModel();
    const { code, stdout } = await run("doctor", "template", "nano.gguf");
    expect([code, stdout]).toEqual([0, expect.stringContaining("parser qwen25")]);
  });
});
