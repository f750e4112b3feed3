// A run whose workers wrote shards, from its users' side: every command that reads runs gives the
// same output as for the same run of one process.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { createFileRunStore, openRunFolder, openShard } from "../store/index.ts";
import { createTestCli, type TestCli } from "./cli.test-helper.ts";

let cli: TestCli;

/** Distributes the episodes of a run as three workers would have written them. */
async function distribute(from: string, to: string): Promise<void> {
  const reader = openRunFolder(from);
  const store = createFileRunStore(to, { hasShards: true });
  await store.begin(await reader.manifest());
  const shards = await Promise.all(["w0", "w1", "w2"].map((name) => openShard(to, name)));
  let at = 0;
  for await (const episode of reader.episodes()) {
    const shard = shards[at++ % 3]!;
    await store.appendIndexed(await shard.append(episode));
  }
  for await (const group of reader.groups()) await store.appendGroup({ group, sampleLines: [] });
  for (const shard of shards) await shard.close();
  await store.close(await reader.manifest());
}

beforeAll(async () => {
  cli = await createTestCli();
  const flags = ["--tasks", "0-5", "--group-size", "2", "--expert-noise", "0.2", "--seed", "3", "--quiet"];
  for (const folder of ["one", "many"]) await mkdir(join(cli.folder, folder));
  await cli.run("rollout", ...flags, "--out", "one/r");
  await distribute(join(cli.folder, "one/r"), join(cli.folder, "many/r"));
}, 60_000);

describe("a run with shards", () => {
  it("is listed, shown, exported, evaluated and compared like the same run of one process, also when it is merged", async () => {
    const merged = await cli.run("merge", "many/r", "--out", "merged/r");
    expect(merged).toEqual({
      code: 0,
      stdout: expect.stringMatching(
        /^merged\/r: 12 episodes and 6 groups from 3 shards \([\d.]+ MB\)\nNext: npx trainable-agents inspect merged\/r\n$/,
      ) as string,
      stderr: "",
    });
    const said = async (place: string): Promise<unknown[]> => {
      const runs: unknown[] = [];
      for (const argv of [
        ["inspect", `${place}/r`],
        ["inspect", `${place}/r`, "--outcome", "passed", "--json"],
        ["inspect", `${place}/r`, "7"],
        ["inspect", `${place}/r`, "12", "--tokens"],
        ["inspect", `${place}/r`, "13"],
        ["tokens", `${place}/r`, "2"],
        [
          "export",
          `${place}/r`,
          "--format",
          "verl",
          "--where",
          "group_mean > 0 and turns < 9",
          "--output",
          `${place}/rows`,
        ],
        ["export", `${place}/r`, "--format", "sft", "--output", `${place}/sft.jsonl`],
        ["eval", "--from", `${place}/r`, "--pass-k", "1,2"],
        ["compare", `${place}/r`, `${place}/r`],
      ]) {
        const { code, stdout, stderr } = await cli.run(...argv);
        runs.push([argv[0], code, stdout.replaceAll(`${place}/`, ""), stderr.replaceAll(`${place}/`, "")]);
      }
      for (const file of ["rows", "sft.jsonl"]) runs.push(await readFile(join(cli.folder, place, file), "utf8"));
      return runs;
    };
    const expected = await said("one");
    expect(expected).toHaveLength(12);
    expect(await said("many")).toEqual(expected);
    expect(await said("merged")).toEqual(expected);
    for (const name of ["episodes.jsonl", "groups.jsonl", "index.jsonl"]) {
      const [one, other] = await Promise.all(
        ["one", "merged"].map((place) => readFile(join(cli.folder, place, "r", name))),
      );
      expect(other!.equals(one!)).toBe(true);
    }
  });

  it("refuses what cannot be merged with a sentence and exit code 2, and writes nothing", async () => {
    const refused = async (...argv: readonly string[]): Promise<string> => {
      const { code, stdout, stderr } = await cli.run("merge", ...argv);
      expect([code, stdout]).toEqual([2, ""]);
      return stderr;
    };
    expect(await refused("one/r")).toContain("it has no shards; it is in the layout that a merge makes");
    expect(await refused("nowhere")).toContain('Cannot read run "');
    await writeFile(join(cli.folder, "taken"), "");
    expect(await refused("many/r", "--out", "taken")).toContain("exists; name a new folder with --out");
    expect(await refused("many/r", "--into", "x")).toContain('there is no option "--into"');
    cli.drain.abort();
    const stopped = await cli.run("merge", "many/r", "--out", "stopped");
    expect(stopped).toEqual({ code: 130, stdout: "", stderr: "Interrupted: nothing is written.\n" });
  });
});
