import { cp, mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { beforeAll, describe, expect, it } from "vitest";
import { createTestCli, type TestCli } from "./cli.test-helper.ts";

let cli: TestCli;
const rollout = ["rollout", "--engine", "expert", "--quiet", "--tasks", "0-3", "--group-size", "3"] as const;
const withSamples = [...rollout, "--write-samples"] as const;

beforeAll(async () => {
  cli = await createTestCli();
  await cli.run(...withSamples, "--out", "runs/one");
  await cli.run(...rollout, "--seed", "8", "--out", "runs/two");
}, 60_000);

async function lines(file: string): Promise<Record<string, unknown>[]> {
  const text = await readFile(join(cli.folder, file), "utf8");
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe("export", () => {
  it("writes the rows that the rollout wrote, for slime", async () => {
    const { code, stdout } = await cli.run("export", "runs/one", "--format", "slime", "--output", "slime.jsonl");
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(
        /^12 rows for slime in slime\.jsonl \([\d.]+ kB\): 12 episodes of 4 groups, [\d,]+ trained tokens\n$/,
      ),
    ]);
    const numbers = ["index", "group_index", "rollout_id"];
    const content = (row: Record<string, unknown>): string =>
      JSON.stringify(Object.entries(row).filter(([name]) => !numbers.includes(name)));
    const written = (await lines("slime.jsonl")).map(content).toSorted();
    expect(written).toEqual((await lines("runs/one/samples.jsonl")).map(content).toSorted());
  });

  it("derives samples.jsonl byte by byte as the rollout writes it, whatever became of the groups", async () => {
    const odd = 'export default ({ groupIndex }) => (groupIndex % 3 === 2 ? "third" : null);\n';
    await writeFile(join(cli.folder, "third.mjs"), odd);
    const groups = ["--filter", "./third.mjs", "--replacements", "2", "--concurrency", "5", "--expert-noise", "0.3"];
    const masked = [...groups, "--fault-policy", "mask"];
    for (const [name, flags] of Object.entries({ plain: [], groups, masked })) {
      await cli.run(...withSamples, ...flags, "--out", `own/${name}`);
      const file = join(cli.folder, "own", name, "samples.jsonl");
      const written = await readFile(file);
      expect(written.length).toBeGreaterThan(0);
      await rm(file);
      const { code } = await cli.run("export", `own/${name}`, "--format", "samples", "--output", `own/${name}.jsonl`);
      expect(code).toBe(0);
      expect((await readFile(join(cli.folder, "own", `${name}.jsonl`))).equals(written)).toBe(true);
    }
    await cli.run(...rollout, "--out", "own/without");
    expect(existsSync(join(cli.folder, "own", "without", "samples.jsonl"))).toBe(false);
  });

  it("says which folder is missing", async () => {
    const { code, stderr } = await cli.run(..."export runs/one --format slime --output nowhere/rows.jsonl".split(" "));
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/there is no folder "\S+nowhere"; create it first, or name/),
    ]);
  });

  it("joins runs without mixing their groups, and says what it left out", async () => {
    const { code, stdout } = await cli.run(
      ...["export", "runs/one", "runs/two", "--format", "verl", "--output", "verl.jsonl"],
      ...["--where", "reward == 1"],
    );
    expect(code).toBe(0);
    const rows = (await lines("verl.jsonl")) as { reward_score: number; extra_fields: Record<string, unknown> }[];
    expect(rows.every(({ reward_score: score }) => score === 1)).toBe(true);
    const uids = new Set(rows.map(({ extra_fields: facts }) => facts["uid"]));
    expect([...uids].some((uid) => String(uid).startsWith("one/"))).toBe(true);
    expect([...uids].some((uid) => String(uid).startsWith("two/"))).toBe(true);
    const rollouts = rows.map(({ extra_fields: facts }) => facts["rollout_id"]);
    expect(new Set(rollouts).size).toBe(rows.length);
    expect(stdout).toContain(`  ${24 - rows.length} episodes (`);
    expect(stdout).toMatch(/sampled tokens\): --where\n$/);
  });

  it("refuses the same run twice: by its name, another path, a link, or as a copy", async () => {
    await symlink(join(cli.folder, "runs", "one"), join(cli.folder, "runs", "link"));
    await cp(join(cli.folder, "runs", "one"), join(cli.folder, "runs", "copy"), { recursive: true });
    for (const twin of ["runs/one", "runs/../runs/one", join(cli.folder, "runs", "one"), "runs/link", "runs/copy"]) {
      const { code, stderr } = await cli.run(
        ...["export", "runs/one", "runs/two", twin, "--format", "verl", "--output", "twice.jsonl"],
      );
      expect([twin, code]).toEqual([twin, 2]);
      expect(stderr).toContain(`Cannot export "runs/one" and "${twin}" together: they are the same run`);
      expect(existsSync(join(cli.folder, "twice.jsonl"))).toBe(false);
    }
  });

  it("keeps groups whole for TRL, names those that are not, and says which datasets of messages need marks", async () => {
    await cli.run(...rollout, "--group-size", "2", "--out", "runs/pairs");
    const trl = await cli.run("export", "runs/one", "runs/pairs", "--format", "trl", "--output", "trl.jsonl");
    const sizes = new Map<unknown, number>();
    for (const { group_id: id } of await lines("trl.jsonl")) sizes.set(id, (sizes.get(id) ?? 0) + 1);
    expect([...sizes.values()]).toEqual([3, 3, 3, 3]);
    expect(trl.stdout).toMatch(/its group "bookshop:train:0" has 2 rows, but the groups before it have 3/);
    const sft = await cli.run("export", "runs/one", "--format", "sft", "--output", "marks.jsonl");
    expect(sft.stdout).toContain("--format sft-tokens");
  });

  it("shows the tools of the environment in datasets of messages", async () => {
    await cli.run("export", "runs/one", "--format", "sft", "--output", "sft.jsonl");
    const [row] = (await lines("sft.jsonl")) as [{ tools: string; messages: { role: string; tool_calls: unknown }[] }];
    expect(JSON.parse(row.tools)).toContainEqual(expect.objectContaining({ type: "function" }));
    expect(row.messages.slice(0, 2).map(({ role }) => role)).toEqual(["system", "user"]);
    expect(row.messages.some(({ tool_calls: calls }) => calls !== null)).toBe(true);
  });

  it("leaves out groups that are not decided, and takes their episodes where groups do not matter", async () => {
    const stopped = join(cli.folder, "runs", "stopped");
    await mkdir(stopped);
    for (const file of ["run.json", "episodes.jsonl", "groups.jsonl"]) {
      const text = await readFile(join(cli.folder, "runs", "one", file), "utf8");
      const kept = file === "groups.jsonl" ? `${text.split("\n").slice(0, 3).join("\n")}\n` : text;
      await writeFile(join(stopped, file), kept);
    }
    const verl = await cli.run("export", "runs/stopped", "--format", "verl", "--output", "stopped.jsonl");
    expect(verl.stdout).toMatch(
      /9 episodes of 3 groups.*\nLeft out:\n {2}3 episodes \(\d+ sampled tokens\): its group is not decided yet\n/,
    );
    const sft = await cli.run("export", "runs/stopped", "--format", "sft-tokens", "--output", "stopped-sft.jsonl");
    expect(sft.stdout).toContain("12 episodes of 4 groups");
  });

  it("writes nothing when an episode's tokens do not add up", async () => {
    const broken = join(cli.folder, "runs", "broken");
    await mkdir(broken);
    for (const file of ["run.json", "episodes.jsonl", "groups.jsonl"]) {
      const text = await readFile(join(cli.folder, "runs", "one", file), "utf8");
      // A turn that claims sampled tokens without naming the weights that sampled them.
      const changed = file === "episodes.jsonl" ? text.replace(/"tokenCount":\d+/, '"tokenCount":1') : text;
      const checked = changed.replaceAll(
        /^(.*),"crc32":"\w{8}"\}$/gm,
        (_line, body: string) => `${body},"crc32":"${crc32(body).toString(16).padStart(8, "0")}"}`,
      );
      await writeFile(join(broken, file), checked);
    }
    const { code, stderr } = await cli.run("export", "runs/broken", "--format", "trl", "--output", "broken.jsonl");
    expect(code).toBe(1);
    expect(stderr).toContain("is covered by");
    expect(existsSync(join(cli.folder, "broken.jsonl"))).toBe(false);
    expect(existsSync(join(cli.folder, "broken.jsonl.part"))).toBe(false);
  });

  it.each([
    [["runs/none", "--format", "verl", "--output", "x"], 'Cannot read run "'],
    [
      ["runs/one", "--format", "verl", "--output", "slime.jsonl"],
      'Cannot write "slime.jsonl": it exists; pass --force',
    ],
    [["runs/one", "--format", "verl", "--output", "no/such/x"], 'Cannot write "no/such/x"'],
    [["runs/one", "--format", "verl", "--output", "x", "--where", "reward"], "at character 7"],
    [
      ["runs/one", "--format", "verl", "--output", "x", "--where", "reward > 9"],
      'no episode is left for format "verl"',
    ],
    [["runs/one", "--format", "slime", "--output", "x", "--model", "gone"], "name its folder with --model"],
    [["runs/one", "--format", "vrel", "--output", "x"], "verl"],
    [["runs/one", "runs/two", "--format", "samples", "--output", "x"], "export each separately"],
    [["runs/one", "--output", "x"], "--format"],
    [["runs/one", "--format", "verl"], "--output"],
    [["--format", "verl", "--output", "x"], "run"],
  ])("refuses %s", async (parameters, wanted) => {
    const { code, stderr } = await cli.run("export", ...parameters);
    expect([code, stderr]).toEqual([2, expect.stringContaining(wanted)]);
    expect(existsSync(join(cli.folder, "x"))).toBe(false);
  });

  it("replaces a file only when told to, and stops when it is interrupted", async () => {
    const forced = ["export", "runs/one", "--format", "trl", "--output", "sft.jsonl", "--force"];
    expect((await cli.run(...forced)).code).toBe(0);
    cli.drain.abort();
    const stopped = await cli.run(...forced);
    expect([stopped.code, stopped.stderr]).toEqual([130, "Interrupted: nothing is written.\n"]);
    expect(await lines("sft.jsonl")).toHaveLength(12);
  });
});
