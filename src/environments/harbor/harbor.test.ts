import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { ConfigurationError, messageOf } from "../../core/failure.ts";
import { fromPlain } from "../../python-semantics/json/plain.ts";
import type { JsonObject } from "../../python-semantics/json/value.ts";
import { harborSource } from "./index.ts";
import { requirePrograms } from "./sandbox.ts";
import { hasBubblewrap, taskFiles, writeTasks } from "./sandbox.test-helper.ts";

const examples = fileURLToPath(new URL("../../../examples/harbor", import.meta.url));
const ending = { outcome: "completed" } as const;

describe.skipIf(!hasBubblewrap())("the tasks in examples/harbor", () => {
  it.each(readdirSync(examples))("%s: its solution earns 1, and nothing earns 0", { timeout: 60_000 }, async (name) => {
    const source = await harborSource(join(examples, name));
    const task = source.taskset("all").task(0);
    expect(task.id).toBe(`harbor/${name}:all:${name}`);
    const idle = await source.open(task);
    const nothing = await idle.grade(ending);
    await idle.close();
    const solved = await source.open(task);
    const output = await solved.solve();
    const done = await solved.grade(ending);
    await solved.close();
    expect({ nothing: nothing.reward, done: done.reward, output, log: done.log }).toEqual({
      nothing: 0,
      done: 1,
      output: "",
      log: "",
    });
  });
});

describe.skipIf(!hasBubblewrap())("HarborWorld", () => {
  const call = (name: string, given: Readonly<Record<string, unknown>>) => ({
    name,
    arguments: fromPlain(given) as JsonObject,
  });

  it("writes, reads and runs in the working folder, and answers mistakes", async () => {
    const source = await harborSource(examples);
    const world = await source.open(source.taskset("all").task(2));
    const content = "eins\nzwei ß\ndrei\n";
    expect(await world.call(call("write", { path: "new/a b.txt", content }))).toMatchObject({
      text: "",
      isError: false,
    });
    expect((await world.call(call("read", { path: "/app/new/a b.txt" }))).text).toBe(content);
    expect((await world.call(call("read", { path: "new/a b.txt", offset: 2, limit: 1 }))).text).toBe("zwei ß\n");
    expect(
      await world.call(call("bash", { command: "pwd; cat 'new/a b.txt' | wc -l; ls /tests /solution 2>&1; exit 3" })),
    ).toMatchObject({
      text: expect.stringMatching(/^\/app\n3\n.*'\/tests'.*\n.*'\/solution'.*\n\[exit code 3\]$/) as string,
      isError: true,
      endsEpisode: false,
    });
    expect((await world.call(call("fly", {}))).isError).toBe(true);
    expect((await world.call(call("bash", {}))).text).toBe("");
    await world.close();
    await expect(world.call(call("bash", { command: "true" }))).rejects.toThrow("the sandbox is closed");
  });
});

describe("harborSource()", () => {
  it("refuses tasks by name before anything runs", async () => {
    const folder = writeTasks({
      gpu: taskFiles("true", { toml: "[environment]\nnetwork_mode = 'no-network'\ngpus = 1\n" }),
      net: taskFiles("true", { toml: "[environment]\n" }),
      plain: taskFiles("true"),
    });
    const refusal = await harborSource(folder).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(ConfigurationError);
    expect(messageOf(refusal).split("\n")).toEqual([
      `Cannot run 2 of 3 Harbor tasks in "${folder}": they want what the sandbox cannot give; choose --harbor-network none or host for those that want a network; leave such tasks out with --harbor-skip.`,
      "  gpu: [environment] gpus",
      "  net: a network",
    ]);
    await expect(harborSource(`${folder}/gpu`, { skip: true })).rejects.toThrow("run such tasks with Harbor");
    rmSync(folder, { recursive: true });
  });

  it("is refused with the command that installs bubblewrap, where there is none", () => {
    const { PATH } = process.env;
    process.env["PATH"] = "/nowhere";
    try {
      expect(() => requirePrograms()).toThrow(/bwrap.* not found; install it with "apt install bubblewrap/);
    } finally {
      process.env["PATH"] = PATH;
    }
  });
});
