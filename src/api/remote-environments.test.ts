import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { fakeOpenEnv } from "../environments/remote/openenv/fake-server.test-helper.ts";
import { fakeOrs } from "../environments/remote/ors/fake-server.test-helper.ts";
import { loadEnvironment } from "./load-environment.ts";

const cwd = mkdtempSync(join(tmpdir(), "remote-"));
const lines = [
  { instruction: "Find the number.", reset: { seed: 7 } },
  { reset: { seed: 8 }, split: "test" },
];
writeFileSync(join(cwd, "tasks.jsonl"), lines.map((line) => `${JSON.stringify(line)}\n\n`).join(""));
writeFileSync(join(cwd, "bad.jsonl"), '{"resets": {}}\n');
writeFileSync(join(cwd, "empty.jsonl"), "\n");
const [openEnv, ors] = await Promise.all([fakeOpenEnv(), fakeOrs()]);
afterAll(async () => {
  rmSync(cwd, { recursive: true });
  await Promise.all([openEnv.close(), ors.close()]);
});

const load = (env: string, envTasks: string | null = null, variables: Record<string, string> = {}) =>
  loadEnvironment(env, { cwd, settings: { envTasks }, env: variables });

describe("loadEnvironment() of an OpenEnv server", () => {
  const address = `openenv:${openEnv.url}`;

  it("has tasks that are seeds, or lines of a file, by split", async () => {
    const { source, defaultSplit } = await load(address.replace("http:", "ws:"), "seeds:10-12");
    expect([source.name, defaultSplit, source.taskset("train").size, source.resume]).toEqual([
      "openenv/guess",
      "train",
      3,
      "restart",
    ]);
    const filed = (await load(`${address}/ws?deterministic=true&reward=last`, "tasks.jsonl")).source;
    expect([filed.splits, filed.resume, filed.taskset("train").task(0).instruction]).toEqual([
      ["train", "test"],
      "replay",
      "Find the number.",
    ]);
    const signal = new AbortController().signal;
    const environment = await filed.open(filed.taskset("test").task(0), { signal, seed: 5 });
    expect(environment.opening).toContain("Guess a number");
    await environment.close?.();
    expect(openEnv.received.at(-1)?.[0]).toMatchObject({ data: { seed: 8 } });
  });

  it("takes tasks from CSV and from a function with pages, with a hash for each split", async () => {
    writeFileSync(
      join(cwd, "tasks.csv"),
      'instruction,reset,split\nFind the number.,"{""seed"":7}",\n,"{""seed"":8}",test\n',
    );
    const [filed, same] = [await load(address, "tasks.jsonl"), await load(address, "tasks.csv")];
    for (const split of ["train", "test"]) {
      const [one, other] = [filed.source.taskset(split), same.source.taskset(split)];
      expect(one.hash).toMatch(/^[0-9a-f]{64}$/);
      expect([other.hash, other.size]).toEqual([one.hash, one.size]);
      expect(other.task(0)).toEqual(one.task(0));
    }
    const page =
      "(offset, limit, split) => Array.from({ length: limit }, (_, at) => ({ reset: { seed: offset + at, split } }))";
    writeFileSync(
      join(cwd, "tasks.mjs"),
      `export default { version: "1", size: { train: 1e6, hard: 10 }, page: ${page} };`,
    );
    const { source } = await load(address, "tasks.mjs");
    expect(source.splits.map((split) => [split, source.taskset(split).size])).toEqual([["train", 1e6], ["hard", 10]]); // prettier-ignore
    const environment = await source.open(source.taskset("hard").task(9), { signal: new AbortController().signal, seed: 5 }); // prettier-ignore
    await environment.close?.();
    expect(openEnv.received.at(-1)?.[0]).toMatchObject({ data: { seed: 9, split: "hard" } });
    writeFileSync(join(cwd, "broken.mjs"), `export default { version: "1", size: 5, page: async () => [] };`);
    await expect(load(address, "broken.mjs")).rejects.toThrow(
      "it returned a promise, and tasks are taken synchronously",
    );
  });

  it.each<[string, string | null, string]>([
    ["", null, "none are given; pass seeds, like --env-tasks seeds:100"],
    ["", "seeds:0", "from 1 to 10000000 seeds are possible"],
    ["", "seeds:many", 'Cannot create tasks of "seeds:many"'],
    ["", "bad.jsonl", 'line 1 of "bad.jsonl": ✖ Unrecognized key: "resets"'],
    ["", "empty.jsonl", "it has none; write one task per line"],
    ["?rewards=sum", "seeds:1", 'no option "rewards", there are reward, capacity'],
    ["?reward=mean", "seeds:1", 'reward is "mean", expected one of sum, last'],
    ["?capacity=0", "seeds:1", 'capacity is "0", expected a whole number from 1'],
    ["/elsewhere", "seeds:1", "HTTP 404"],
  ])("refuses %j with tasks %j", async (suffix, tasks, reason) => {
    await expect(load(`${address}${suffix}`, tasks)).rejects.toThrow(reason);
    await expect(load(`${address}${suffix}`, tasks)).rejects.toThrow(
      expect.objectContaining({ name: "ConfigurationError" }),
    );
  });

  it("never takes a password in an address, which is recorded", async () => {
    const refusal = load(address.replace("//", "//me:hidden@"), "seeds:1").catch((error: unknown) => String(error));
    expect(await refusal).toContain("it contains a user name or password");
    expect(await refusal).not.toContain("hidden");
  });
});

describe("loadEnvironment() of an ORS server", () => {
  it("has the tasks of the server, of the environment that the address names", async () => {
    const { source } = await load(`ors:${ors.url}/sums`);
    expect([source.name, source.splits, source.taskset("hard").size]).toEqual(["ors/sums", ["train", "hard"], 4]);
    expect((await load(`ors:${ors.url}`)).source.name).toBe("ors/sums");
  });

  it.each<[string, string | null, string]>([
    ["/nope", null, "it serves sums, lamp"],
    ["", "seeds:1", 'Cannot use --env-tasks with environment "ors:'],
    ["?secrets_env=ORS_KEY", null, "variable ORS_KEY is not set"],
  ])("refuses %j with tasks %j", async (suffix, tasks, reason) => {
    await expect(load(`ors:${ors.url}${suffix}`, tasks)).rejects.toThrow(reason);
  });
});
