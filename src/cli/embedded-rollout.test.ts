import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { defaultToolInstruction } from "../agents/index.ts";
import { shippedCheckpoint } from "../learner/model/index.ts";
import { readEpisodes } from "../store/index.ts";
import { createTestCli } from "./cli.test-helper.ts";
import { tokenizerOf } from "../api/choose-model.ts";

describe("--engine embedded", () => {
  it("plays the bookshop with a shipped model, in the words that it was trained with", async () => {
    const { run, folder } = await createTestCli();
    const flags = [
      "--env",
      "bookshop",
      "--split",
      "validation",
      "--tasks",
      "0-13",
      "--seed",
      "1",
      "--out",
      "run",
      "--write-samples",
    ];
    const { code, stdout, stderr } = await run("rollout", "--engine", "embedded", "--model", "bookshop-nano", ...flags);
    expect(stderr).toContain("engine embedded at this process");
    expect(code).toBe(0);
    expect(stdout).toMatch(/failures +none/);

    const tokenizer = await tokenizerOf(shippedCheckpoint("bookshop-nano"), folder);
    const episodes = [];
    for await (const episode of readEpisodes(join(folder, "run"))) episodes.push(episode);
    expect(episodes).toHaveLength(14);
    for (const { trajectory } of episodes) {
      const [first] = trajectory.turns;
      const prompt = tokenizer?.decode(first?.observationTokens ?? []) ?? "";
      expect(prompt).toContain("You are the night desk of Inkwell & Owl");
      expect(prompt).not.toContain(defaultToolInstruction);
    }
    const rows = (await readFile(join(folder, "run", "samples.jsonl"), "utf8")).trim().split("\n");
    expect(rows).toHaveLength(14);
  });

  it.each([
    [["--engine", "embedded", "--url", "http://h"], "it has no effect there"],
    [["--engine", "embedded", "--model", "readable"], '"readable" names a tokenizer without a model'],
    [["--engine", "embedded", "--model", "nowhere"], "Cannot"],
    [["--engine", "embedded", "--preset", "slime-tau"], "the preset speaks to SGLang"],
  ])("refuses %j", async (flags, wanted) => {
    const { run } = await createTestCli();
    const { code, stderr } = await run("rollout", "--env", "bookshop", ...flags);
    expect(stderr).toContain(wanted);
    expect(code).toBe(2);
  });
});

describe("export-model", () => {
  it("writes a shipped model as GGUF, and never over a file", async () => {
    const { run, folder } = await createTestCli();
    const { code, stdout } = await run("export-model", "bookshop-nano", "--to", "nano.gguf");
    expect([code, stdout]).toEqual([0, "nano.gguf: 1.9 MB\n"]);
    expect((await readFile(join(folder, "nano.gguf"))).subarray(0, 4).toString()).toBe("GGUF");
    const again = await run("export-model", "bookshop-nano", "--to", "nano.gguf");
    expect([again.code, again.stderr]).toEqual([2, expect.stringContaining('"nano.gguf" exists')]);
    expect((await run("export-model", "bookshop-nano")).stderr).toContain("pass --to <file>");
  });
});
