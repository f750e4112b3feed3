import { writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
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
    [["--engine", "llama-cpp"], "give --gguf <file>"],
    [["--gguf", "x.gguf"], "no model is named; give --model <folder>"],
    [["--gguf-adapter", "a.gguf", "--engine", "embedded"], "Cannot use --gguf-adapter without --gguf"],
    [["--gguf", "x.gguf", "--engine", "embedded"], 'Cannot use --gguf with engine "embedded"'],
    [["--gguf", "x.gguf", "--model", "bookshop-nano", "--url", "http://h"], "it needs no server"],
    [["--gguf", "x.gguf", "--model", "bookshop-nano", "--preset", "slime-tau"], "the preset speaks to SGLang"],
    [["--gguf", "x.gguf", "--agent-model", "openai/gpt"], "Cannot use --gguf with --agent-model"],
    [["--gguf", "nowhere.gguf", "--model", "bookshop-nano"], 'nowhere.gguf" with llama.cpp: there is no such file'],
  ])("refuses %j", async (flags, wanted) => {
    const { run } = await createTestCli();
    const { code, stderr } = await run("rollout", "--env", "bookshop", ...flags);
    expect(stderr).toContain(wanted);
    expect(code).toBe(2);
  });

  it.skipIf(isInstalled)("says how the optional package is installed", async () => {
    const { run, folder } = await createTestCli();
    await writeFile(join(folder, "x.gguf"), "GGUF");
    const { code, stderr } = await run("rollout", "--gguf", "x.gguf", "--model", "bookshop-nano");
    expect(stderr).toContain('run "npm install node-llama-cpp@3"');
    expect(code).toBe(2);
  });
});
