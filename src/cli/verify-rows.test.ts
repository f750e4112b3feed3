// Rows of every format, exported from a real run and then changed in one place: each change is found
// and named, and unchanged rows pass.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import type { VerifyRowsResult } from "../api/verify-rows.ts";
import { createTestCli, type TestCli } from "./cli.test-helper.ts";

type Row = Record<string, unknown>;
const rollout = ["rollout", "--engine", "expert", "--quiet", "--tasks", "0-3", "--group-size", "3"] as const;

let cli: TestCli;
beforeAll(async () => {
  cli = await createTestCli();
  await cli.run(...rollout, "--expert-noise", "0.3", "--write-samples", "--out", "runs/one");
  await cli.run(...rollout, "--expert-noise", "0.3", "--seed", "8", "--out", "runs/two");
  // Pairs of episodes that began alike are rare, so they need larger groups.
  const large = ["--tasks", "0-7", "--group-size", "8", "--expert-noise", "0.3"] as const;
  await cli.run(...rollout, ...large, "--out", "runs/pairs-one");
  await cli.run(...rollout, ...large, "--seed", "8", "--out", "runs/pairs-two");
  for (const [name, runs] of [
    ["one", ["one"]],
    ["two", ["two"]],
    ["both", ["one", "two"]],
  ] as const) {
    for (const format of formats) {
      const folders = runs.map((run) => runOf(format, run));
      await cli.run("export", ...folders, "--format", format, "--output", `${name}.${format}.jsonl`);
    }
  }
  for (const format of withTokens) {
    await cli.run("export", "runs/one", "--format", format, "--output", `one.${format}.parquet`);
  }
}, 300_000);

const withTokens = ["slime", "verl", "tinker", "trl", "sft-tokens", "atropos", "verifiers"] as const;
const ofText = ["sft", "preferences", "atif"] as const;
const formats = [...withTokens, ...ofText];

/** The run folder whose rows a file or a format has. */
const runOf = (file: string, run: string): string => `runs/${file.includes("preferences") ? "pairs-" : ""}${run}`;

async function rows(file: string): Promise<Row[]> {
  const text = await readFile(join(cli.folder, file), "utf8");
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Row);
}

async function verify(file: string, ...flags: readonly string[]): Promise<VerifyRowsResult & { code: number }> {
  const { code, stdout } = await cli.run("verify-rows", file, "--json", "--run", runOf(file, "one"), ...flags);
  return { ...(JSON.parse(stdout) as VerifyRowsResult), code };
}

/** Writes the rows with a change, and verifies them. */
async function changed(file: string, change: (rows: Row[]) => void, ...flags: readonly string[]) {
  const all = await rows(file);
  change(all);
  await mkdir(join(cli.folder, "changed"), { recursive: true });
  const path = join("changed", file);
  await writeFile(join(cli.folder, path), all.map((row) => `${JSON.stringify(row)}\n`).join(""));
  return verify(path, ...flags);
}

const at = (value: unknown, ...path: readonly (string | number)[]): Row => {
  let found = value;
  for (const key of path) found = (found as Row)[key];
  return found as Row;
};

describe("verify-rows", () => {
  it.each(formats)("passes unchanged rows of %s, whole and of several runs", async (format) => {
    const complete = ofText.some((one) => one === format) ? [] : ["--complete"];
    const { code, rows: count, faults, ...result } = await verify(`one.${format}.jsonl`, ...complete);
    expect([code, faults, result.format]).toEqual([0, [], format]);
    expect(count).toBe((await rows(`one.${format}.jsonl`)).length);
    const both = await verify(`both.${format}.jsonl`, runOf(format, "two"), ...complete);
    expect([both.code, both.faults]).toEqual([0, []]);
    expect(both.compared).toBeGreaterThan(result.compared);
  });

  it.each(withTokens)("reads Parquet of %s", async (format) => {
    const { code, faults, tokens } = await verify(`one.${format}.parquet`, "--complete");
    expect([code, faults]).toEqual([0, []]);
    expect(tokens).toBe((await verify(`one.${format}.jsonl`)).tokens);
  });

  it("passes the samples that the rollout wrote itself", async () => {
    expect(await verify("runs/one/samples.jsonl", "--complete")).toMatchObject({ code: 0, faultCount: 0, rows: 12 });
  });

  // Places of the first sampled token: the array, and the index in it for a row.
  const ids: Readonly<Record<string, (row: Row) => readonly [list: number[], place: number]>> = {
    slime: (row) => [
      row["tokens"] as number[],
      (row["tokens"] as number[]).length - (row["response_length"] as number),
    ],
    verl: (row) => [row["response_ids"] as number[], 0],
    tinker: (row) => [row["target_tokens"] as number[], (row["mask"] as number[]).indexOf(1)],
    trl: (row) => [row["completion_ids"] as number[], 0],
    "sft-tokens": (row) => [
      row["input_ids"] as number[],
      (row["labels"] as number[]).findIndex((label) => label !== -100),
    ],
    atropos: (row) => [
      at(row, "tokens", 0) as unknown as number[],
      (at(row, "masks", 0) as unknown as number[]).findIndex((label) => label !== -100),
    ],
    verifiers: (row) => {
      const node = (at(row, "traces", 0, "nodes") as unknown as Row[]).find(({ sampled }) => sampled === true)!;
      return [node["token_ids"] as number[], (node["mask"] as boolean[]).indexOf(true)];
    },
  };

  it.each(withTokens)("finds a changed sampled id and a changed shown one in %s, and names them", async (format) => {
    const file = `one.${format}.jsonl`;
    for (const distance of [0, -1]) {
      let place = 0;
      const { code, faults } = await changed(file, (all) => {
        const [list, first] = ids[format]!(all[1]!);
        if (distance === 0 || first > 0) list[first + distance]! += 1;
        // Rows that begin with the action have their prompt in a field of its own.
        else (all[1]!["prompt_ids"] as number[])[(all[1]!["prompt_ids"] as number[]).length - 1]! += 1;
        const before = format === "verl" || format === "trl" ? (all[1]!["prompt_ids"] as number[]).length : 0;
        place = before + first + distance + (format === "tinker" ? 1 : 0);
      });
      expect([code, faults.length]).toEqual([1, 1]);
      expect(faults[0]).toMatchObject({ kind: "changed", line: 2, turn: 0, token: place });
      expect(faults[0]!.message).toMatch(/^Line 2, row "bookshop:train:\S+": id \d+/);
    }
  });

  it.each([
    ["slime", "rollout_log_probs"],
    ["verl", "response_logprobs"],
    ["tinker", "logprobs"],
    ["trl", "logprobs"],
  ] as const)("finds the smallest change of a logprob in %s", async (format, name) => {
    const { faults } = await changed(`one.${format}.jsonl`, (all) => {
      const list = all[2]![name] as number[];
      const place = list.findIndex((logprob) => logprob !== 0);
      const bits = new Uint32Array(Float32Array.of(list[place] ?? 0).buffer);
      bits[0]! += 1;
      list[Math.max(0, place)] = place === -1 ? -1e-30 : new Float32Array(bits.buffer)[0]!;
    });
    expect(faults).toMatchObject([{ kind: "changed", line: 3, message: expect.stringContaining("logprob") as string }]);
  });

  it.each([
    ["slime", "loss_mask"],
    ["verl", "response_mask"],
    ["tinker", "mask"],
    ["trl", "env_mask"],
  ] as const)("finds a changed mask in %s", async (format, name) => {
    for (const [from, to] of [
      [1, 0],
      [0, 1],
    ]) {
      const { faults } = await changed(`one.${format}.jsonl`, (all) => {
        const list = all[0]![name] as number[];
        list[list.indexOf(from!)] = to!;
      });
      expect(faults).toMatchObject([
        { kind: "changed", line: 1, message: expect.stringContaining("the loss") as string },
      ]);
    }
  });

  const factsName = { slime: "metadata", verl: "extra_fields", tinker: "metadata", trl: "metadata" } as const;
  it.each(["slime", "verl", "tinker", "trl"] as const)(
    "finds other digests, versions and request ids in %s",
    async (format) => {
      const entries = (row: Row): Row[] => at(row, factsName[format], "turn_digests") as unknown as Row[];
      const edits: readonly ((row: Row) => void)[] = [
        (row) => (entries(row)[1]!["digest"] = "0".repeat(64)),
        (row) => (entries(row)[1]!["request_ids"] = ["another"]),
        (row) => (entries(row)[1]!["weights"] = [[1, "7", "7"]]),
        (row) => entries(row).pop(),
      ];
      for (const edit of edits) {
        const { faults } = await changed(`one.${format}.jsonl`, (all) => edit(all[4]!));
        expect(faults).toMatchObject([
          { kind: "changed", line: 5, message: expect.stringContaining("digest") as string },
        ]);
      }
    },
  );

  it.each(formats)("finds rows of %s that are of another run, duplicated, or of no run", async (format) => {
    const other = (await rows(`two.${format}.jsonl`))[0]!;
    const foreign = await changed(`one.${format}.jsonl`, (all) => all.splice(3, 0, other));
    expect(foreign.faults.map(({ line }) => line)).toEqual(foreign.faults.map(() => 4));
    // A row of several episodes may have one that began like that of the other run.
    expect(foreign.faults.map(({ kind }) => kind)).toContain("foreign");
    const unknown = await changed(`one.${format}.jsonl`, (all) => {
      const text = JSON.stringify(all[0]).replaceAll(/bookshop:train:\d+/g, "bookshop:train:99");
      all[0] = JSON.parse(text) as Row;
    });
    expect(unknown.faults[0]).toMatchObject({ kind: "foreign", line: 1 });
    const twice = await changed(`one.${format}.jsonl`, (all) => all.push(all[0]!));
    const count = (await rows(`one.${format}.jsonl`)).length + 1;
    expect(twice.faults.map(({ kind, line }) => [kind, line])).toEqual(twice.faults.map(() => ["duplicated", count]));
    expect(twice.faults.length).toBeGreaterThan(0);
  });

  it.each(["slime", "verl", "tinker", "trl", "sft-tokens"] as const)(
    "finds swapped tokens of two rows and missing rows in %s",
    async (format) => {
      const names = ["metadata", "extra_fields"];
      const swapped = await changed(`one.${format}.jsonl`, (all) => {
        for (const name of names) {
          if (name in all[0]!) [all[0]![name], all[5]![name]] = [all[5]![name], all[0]![name]];
        }
      });
      expect(swapped.faults.map(({ line }) => line)).toEqual([1, 6]);
      const row = at((await rows(`one.${format}.jsonl`))[4], format === "verl" ? "extra_fields" : "metadata");
      const fewer = (all: Row[]): unknown => all.splice(4, 1);
      expect((await changed(`one.${format}.jsonl`, fewer)).code).toBe(0);
      const missing = await changed(`one.${format}.jsonl`, fewer, "--complete");
      expect(missing.faults).toMatchObject([
        { kind: "missing", line: null, row: `${String(row["episode_id"])}/${String(row["branch"])}` },
      ]);
    },
  );

  it("names lines that are no rows, and files and runs that cannot be read", async () => {
    const text = await readFile(join(cli.folder, "one.slime.jsonl"), "utf8");
    const [first = "", second = ""] = text.split("\n");
    const broken = [first, second.slice(0, -40), "[1]", '{"tokens": 3}', first.replace('"tokens":[', '"tokens":[1e,')];
    await writeFile(join(cli.folder, "broken.jsonl"), broken.join("\n"));
    const { faults, code } = await verify("broken.jsonl");
    expect(code).toBe(1);
    expect(faults.map(({ kind, line }) => [kind, line])).toEqual([2, 3, 4, 5].map((line) => ["malformed", line]));
    const refused = async (...args: readonly string[]): Promise<readonly [number, string]> => {
      const { code: exit, stderr } = await cli.run("verify-rows", ...args);
      return [exit, stderr];
    };
    await writeFile(join(cli.folder, "empty.jsonl"), "");
    expect(await refused("empty.jsonl", "--run", "runs/one")).toEqual([2, expect.stringContaining("it has no rows")]);
    expect(await refused("none.jsonl", "--run", "runs/one")).toEqual([2, expect.stringContaining("no such file")]);
    expect(await refused("one.slime.jsonl")).toEqual([2, expect.stringContaining("give --run")]);
    expect(await refused("one.slime.jsonl", "--run", "runs")).toEqual([2, expect.stringContaining("run.json")]);
    expect(await refused("one.sft.jsonl", "--run", "runs/one", "--complete")).toEqual([
      2,
      expect.stringContaining("remove --complete"),
    ]);
  });

  it("says in words what it found", async () => {
    const good = await cli.run("verify-rows", "one.slime.jsonl", "--run", "runs/one");
    expect(good.stdout).toMatch(/^12 rows of slime hold what was sampled \(12 samples, [\d,]+ tokens\)\n$/);
    const bad = await cli.run("verify-rows", "one.slime.jsonl", "--run", "runs/two");
    expect(bad.stdout).toMatch(/is not of this run[^]*12 rows of slime have 12 faults/);
  });
});
