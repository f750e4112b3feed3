import { cp, readFile, rm, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { readEpisodes } from "../store/index.ts";
import { createTestCli, type TestCli } from "./cli.test-helper.ts";

const flags = ["--tasks", "0-5", "--group-size", "2", "--expert-noise", "0.2", "--seed", "3", "--write-samples"];

let cli: TestCli;

beforeAll(async () => {
  cli = await createTestCli();
  await cli.run("rollout", ...flags, "--quiet", "--out", "whole");
});

async function copied(): Promise<string> {
  const [from, to] = [join(cli.folder, "whole"), join(cli.folder, "r")];
  await rm(to, { recursive: true, force: true });
  await cp(from, to, { recursive: true });
  return to;
}

/** Makes a finished run look as if its process had died: without its last episodes, and with a lock. */
async function killed(): Promise<void> {
  const to = await copied();
  const lines = (await readFile(join(to, "episodes.jsonl"), "utf8")).split("\n");
  await writeFile(join(to, "episodes.jsonl"), `${lines.slice(0, 5).join("\n")}\n${lines[5]!.slice(0, 99)}`);
  const manifest = await readFile(join(to, "run.json"), "utf8");
  await writeFile(join(to, "run.json"), manifest.replace('"status": "done"', '"status": "running"'));
  await writeFile(join(to, "run.lock"), JSON.stringify({ pid: process.pid, began: "0", host: hostname(), since: "x" }));
}

async function idsIn(folder: string): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of readEpisodes(join(cli.folder, folder))) ids.push(id);
  return ids;
}

const rowsIn = async (folder: string): Promise<string[]> =>
  (await readFile(join(cli.folder, folder, "samples.jsonl"), "utf8")).split("\n").sort();

describe("--resume", () => {
  it("goes on with a killed run: what ended is kept, nothing twice, the same rows, and run.json says how often", async () => {
    await killed();
    const { code, stdout, stderr } = await cli.run("rollout", "--resume", "r", "--concurrency", "3");
    expect([code, stdout]).toEqual([0, expect.stringContaining("12 of 12 in")]);
    expect(stderr).toContain("resuming: 5 episodes have ended, 0 resume at the turn where they stopped");
    expect(stderr).toMatch(/Notice: the last line of ".*episodes\.jsonl" was cut off \(99 bytes\)/);
    const [whole, resumed] = [await idsIn("whole"), await idsIn("r")];
    expect(resumed.slice(0, 5)).toEqual(whole.slice(0, 5));
    expect(resumed.toSorted()).toEqual(whole.toSorted());
    expect(await rowsIn("r")).toEqual(await rowsIn("whole"));
    expect(await readFile(join(cli.folder, "r", "run.json"), "utf8")).toContain('"resumed": 1');

    const again = await cli.run("rollout", "--resume", "r");
    expect([again.code, again.stdout]).toEqual([
      0,
      expect.stringContaining("is complete: 12 episodes; there is nothing"),
    ]);
  });

  it("refuses settings that would give other episodes, in a table, and changes nothing", async () => {
    await killed();
    const before = await readFile(join(cli.folder, "r", "run.json"), "utf8");
    const { code, stderr } = await cli.run("rollout", "--resume", "r", "--temperature", "0.5", "--max-steps", "7");
    expect(code).toBe(2);
    expect(stderr).toContain('Cannot resume "r": its episodes would not be comparable');
    expect(stderr).toMatch(
      /\n\n {4}setting {6}the run {2}now\n {4}temperature {2}1 {8}0\.5\n {4}max-turns {4}30 {7}7\n\n/,
    );
    for (const flag of ["--config", "--out"]) {
      const named = await cli.run("rollout", "--resume", "r", flag, "x");
      expect([named.code, named.stderr]).toEqual([2, expect.stringContaining(`Cannot use ${flag} with --resume`)]);
    }
    expect(await readFile(join(cli.folder, "r", "run.json"), "utf8")).toBe(before);
  });

  it("refuses a folder that a living process uses, one without a run, and the run of another version", async () => {
    await killed();
    const lock = join(cli.folder, "r", "run.lock");
    await writeFile(lock, JSON.stringify({ pid: process.pid, began: null, host: hostname(), since: "noon" }));
    const used = await cli.run("rollout", "--resume", "r");
    expect([used.code, used.stderr]).toEqual([
      2,
      expect.stringContaining(`process ${process.pid} has been using it since noon`),
    ]);
    expect((await cli.run("rollout", "--resume", "nowhere")).stderr).toContain("there is no such folder");
    await rm(lock);
    const manifest = join(cli.folder, "r", "run.json");
    const text = await readFile(manifest, "utf8");
    await writeFile(manifest, text.replace('"configuration": {', '"configuration": {"warp": 9,'));
    expect((await cli.run("rollout", "--resume", "r")).stderr).toContain(
      'it has a setting "warp", which this version does not know',
    );
    await writeFile(manifest, text.replace('"preset": null', '"preset": "slime-tau"'));
    expect((await cli.run("rollout", "--resume", "r")).stderr).toContain("its loop does not journal its episodes");
  });

  it("refuses a run of another format, for every command", async () => {
    await copied();
    const manifest = join(cli.folder, "r", "run.json");
    const text = await readFile(manifest, "utf8");
    const commands = [
      ["inspect", "r"],
      ["inspect", "r", "1", "--tokens"],
      ["tokens", "r", "1"],
      ["export", "r", "--format", "sft-tokens", "--output", "old.jsonl", "--force"],
      ["eval", "--from", "r"],
      ["rollout", "--resume", "r"],
      ["eval", "--resume", "r"],
      ["serve", "--out", "r"],
    ];
    for (const format of [1, 2, 5]) {
      const refusal = `r": it has format ${format}, and this version reads format 4`;
      const changed = text.replace('"format": 4', `"format": ${format}`);
      await writeFile(manifest, changed);
      for (const argv of commands) {
        const { code, stderr } = await cli.run(...argv);
        expect([argv, code, stderr]).toEqual([argv, 2, expect.stringContaining(refusal)]);
      }
      expect(await readFile(manifest, "utf8")).toBe(changed);
    }
  });

  it("finds a changed byte, as inspect, export, eval and a curriculum do", async () => {
    await killed();
    await rm(join(cli.folder, "r", "run.lock"));
    const next = ["rollout", ...flags, "--quiet", "--out", "next", "--groups", "2"];
    const commands = {
      "episodes.jsonl": [
        ["inspect", "r"],
        ["export", "r", "--format", "sft-tokens", "--output", "changed.jsonl"],
        ["eval", "--from", "r"],
        ["rollout", "--resume", "r"],
        ["eval", "--resume", "r"],
      ],
      "groups.jsonl": [
        ["export", "r", "--format", "verl", "--output", "changed.jsonl"],
        ["rollout", "--resume", "r"],
        [...next, "--curriculum", "r"],
      ],
    };
    for (const [file, list] of Object.entries(commands)) {
      const path = join(cli.folder, "r", file);
      const whole = await readFile(path);
      const changed = Buffer.from(whole);
      const at = whole.indexOf(0x0a) + 150;
      changed[at] = changed.readUInt8(at) ^ 1;
      await writeFile(path, changed);
      for (const argv of list) {
        const { code, stderr } = await cli.run(...argv);
        expect([argv, code, stderr]).toEqual([argv, 2, expect.stringContaining(`${file}" line 2 (`)]);
        expect(stderr).toContain("its checksum is another one. Restore the file from a copy");
      }
      await writeFile(path, whole);
    }
  });

  it.each(["episodes.jsonl", "groups.jsonl"])(
    "plays what a damaged line of %s held, as the error advises",
    async (file) => {
      const folder = await copied();
      const lines = (await readFile(join(folder, file), "utf8")).split("\n");
      lines[1] = lines[1]!.replace("bookshop", "bookshot");
      await writeFile(join(folder, file), lines.join("\n"));
      const advice = file === "groups.jsonl" ? "remove this line and those after it" : "remove this line";
      const { stderr } = await cli.run("export", "r", "--format", "verl", "--output", "damaged.jsonl");
      expect(stderr).toContain(`${file}" line 2 (`);
      expect(stderr).toContain(`${advice}, set "status" in run.json to "running" and resume the run`);
      await writeFile(join(folder, file), file === "groups.jsonl" ? `${lines[0]}\n` : lines.toSpliced(1, 1).join("\n"));
      const manifest = await readFile(join(folder, "run.json"), "utf8");
      await writeFile(join(folder, "run.json"), manifest.replace('"status": "done"', '"status": "running"'));
      expect((await cli.run("rollout", "--resume", "r")).code).toBe(0);
      expect((await idsIn("r")).toSorted()).toEqual((await idsIn("whole")).toSorted());
      expect(await rowsIn("r")).toEqual(await rowsIn("whole"));
    },
  );

  it("evaluates a killed evaluation to its end, and a complete one as it is", async () => {
    await killed();
    for (const notes of ["resuming: 5 episodes have ended", ""]) {
      const { code, stdout, stderr } = await cli.run("eval", "--resume", "r");
      expect([code, stdout]).toEqual([0, expect.stringContaining("pass^k")]);
      expect(stderr).toContain(notes);
    }
    expect(await idsIn("r")).toHaveLength(12);
  });
});
