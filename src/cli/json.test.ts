// `--json` of the commands that print a result, and the schema of configuration files.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { createTestCli } from "./cli.test-helper.ts";

describe("--json", () => {
  it("is one JSON value on standard output, and nothing else there", async () => {
    const { run, folder } = await createTestCli();
    const json = async (...argv: string[]): Promise<Record<string, unknown>> => {
      const { code, stdout, stderr } = await run(...argv, "--json");
      expect([argv, code, stderr.includes("Error")]).toEqual([argv, 0, false]);
      return JSON.parse(stdout) as Record<string, unknown>;
    };
    const flags = ["--engine", "embedded", "--tasks", "0-1", "--quiet"];
    expect(await json("rollout", ...flags, "--group-size", "2", "--out", "a")).toMatchObject({
      folder: "a",
      status: "done",
      environment: "bookshop",
      totals: { episodesFinished: 4, userModelCalls: 0 },
    });
    const started = await json("start", "--engine", "expert", "--expert-noise", "0", "--tasks", "0", "--out", "s");
    expect(started).toMatchObject({ folder: "s", totals: { episodesFinished: 8 }, failing: null });
    expect((await json("inspect", "s", String(started["passing"])))["reward"]).toBe(1);
    const evaluated = await json("eval", ...flags, "--trials", "2", "--out", "e");
    expect(evaluated).toMatchObject({
      format: 1,
      source: "e",
      episodes: 4,
      rescored: null,
      rollout: { status: "done" },
    });
    const stored = JSON.parse(await readFile(join(folder, "e", "results.json"), "utf8")) as object;
    expect(evaluated).toMatchObject(stored);
    expect(await json("eval", "--from", "a")).toMatchObject({ title: "bookshop (train)", rollout: null });
    const listed = await json("inspect", "a");
    expect(listed).toMatchObject({ run: "a", status: "done", episodes: 4 });
    const [row] = listed["rows"] as { id: string; turns: number }[];
    const shown = await json("inspect", "a", row!.id);
    expect(shown).toMatchObject({
      id: row!.id,
      messages: expect.any(Array) as unknown,
      reward: expect.any(Number) as unknown,
    });
    expect(await json("export", "a", "--format", "slime", "--output", "s.jsonl")).toMatchObject({
      format: "slime",
      episodes: 4,
      leftOut: [],
    });
    expect(await json("export-model", "bookshop-nano", "--to", "n.gguf")).toMatchObject({ output: "n.gguf" });
    expect(await json("compare", "a", "e")).toMatchObject({ format: 1, pairs: [{ tasks: 2 }] });
    expect(await json("view", "a", "--export", "a.html")).toEqual({
      file: "a.html",
      bytes: expect.any(Number) as unknown,
    });
    expect(await json("init", "environment", "desk")).toMatchObject({ folder: "desk" });
    expect(
      await json("bench", "trainer", "--steps", "1", "--batch-groups", "1", "--group-size", "2", "--speed", "200"),
    ).toMatchObject({ steps: [{}] });
  });
});

describe("schema", () => {
  it("accepts what --dry-run writes, and refuses unknown names and wrong types", async () => {
    const { run } = await createTestCli();
    const { code, stdout } = await run("schema");
    expect(code).toBe(0);
    const isValid = new Ajv2020({ strict: true, allowUnionTypes: true }).compile(JSON.parse(stdout) as object);
    for (const flags of [
      [],
      [
        "--groups",
        "3",
        "--group-size",
        "4",
        "--filter",
        "zero-signal",
        "--metrics",
        "tensorboard",
        "--concurrency",
        "4-64",
      ],
    ]) {
      const settings: unknown = parse((await run("rollout", "--dry-run", ...flags)).stdout);
      expect([isValid(settings), isValid.errors]).toEqual([true, null]);
    }
    for (const wrong of [
      { temprature: 1 },
      { "max-turns": { a: 1 } },
      { engine: "other" },
      { quiet: 3 },
      { "sampling-extra": [1] },
      { "template-kwargs": 5 },
      [],
      { "api-key": "x" },
    ]) {
      expect([wrong, isValid(wrong)]).toEqual([wrong, false]);
    }
    expect(isValid({ "max-turns": 3, "group-size": 8 })).toBe(true);
  });
});
