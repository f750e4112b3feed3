// A world in which every name, text and number of a name tries to act on a terminal, and each
// command that prints its records.

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import { createTestCli, type TestCli } from "./cli.test-helper.ts";

/** Clears the screen, sets a title, reverses the direction, is half a character, and forges a line. */
const evil = "\u001b[2J\u001b]0;owned\u0007\u009b31m\u202e\ud800\u061c\u2028\r\nFORGED: all passed";

const world = (bookshop: string): string => `
import { bookshopSource } from ${JSON.stringify(bookshop)};
const evil = ${JSON.stringify(evil)};
const source = bookshopSource();
const originals = new Map();
const renamed = (task) => {
  const shown = { ...task, id: task.id + evil, labels: { ["kind" + evil]: "a" + evil } };
  originals.set(shown.id, task);
  return shown;
};
export default {
  ...source,
  name: "shop" + evil,
  splits: source.splits, users: source.users, argumentErrors: source.argumentErrors,
  taskset: (split) => {
    const tasks = source.taskset(split);
    return { environment: "shop" + evil, split, size: tasks.size, task: (at) => renamed(tasks.task(at)) };
  },
  open: async (task, options) => {
    const environment = await source.open(originals.get(task.id), options);
    let calls = 0;
    return {
      task, guidelines: environment.guidelines + evil, tools: environment.tools, info: environment.info,
      userSide: null,
      call: async (call, more) => {
        if (++calls > 2 && /[02468]$/.test(originals.get(task.id).id)) throw new Error("the shelf fell" + evil);
        const result = await environment.call(call, more);
        return { ...result, text: result.text + evil };
      },
      receiveUtterance: (text, more) => environment.receiveUtterance(text, more),
      grade: async (ending, more) => {
        const grade = await environment.grade(ending, more);
        return { ...grade, metrics: { ["speed" + evil]: 1 }, log: "because" + evil, info: new Map([["termination_reason", "left" + evil]]) };
      },
      close: () => environment.close(),
    };
  },
};`;

/** Checks that no line is forged, and that all characters that could act are escaped. */
function expectHarmless(written: string): void {
  // oxlint-disable-next-line no-control-regex
  expect(written).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u);
  expect(Buffer.from(written).toString()).toBe(written);
  expect(written).not.toMatch(/^FORGED/m);
}

let cli: TestCli;
let rollout: Awaited<ReturnType<TestCli["run"]>>;

beforeAll(async () => {
  cli = await createTestCli();
  const bookshop = pathToFileURL(join(import.meta.dirname, "../../dist/environments/bookshop/index.js")).href;
  await writeFile(join(cli.folder, "world.mjs"), world(bookshop));
  const embedded = [
    "--engine",
    "embedded",
    "--model",
    "bookshop-nano",
    "--env",
    "./world.mjs",
    "--split",
    "validation",
  ];
  rollout = await cli.run("rollout", ...embedded, "--tasks", "0-5", "--out", "run", "--seed", "1");
  await writeFile(join(cli.folder, `evil${evil.replaceAll(/[\r\n\ud800]/g, "")}.jsonl`), "{}");
}, 120_000);

const commands: readonly (readonly string[])[] = [
  ["inspect", "run"],
  ["inspect", "run", "1"],
  ["inspect", "run", "2", "--full"],
  ["inspect", "run", "1", "--tokens"],
  ["inspect", "run", "1", "--json"],
  ["inspect", "run", "--json"],
  ["tokens", "run", "1"],
  ["tokens", "run", "1", "--json"],
  ["compare", "run", "run", "--all"],
  ["eval", "--from", "run"],
  ["eval", "--from", "run", "--json"],
  ["doctor", "environment", "./world.mjs", "--task-count", "2"],
  ["doctor", "environment", "./world.mjs", "--task-count", "1", "--json"],
  ["export", "run", "--format", "sft"],
  ["inspect", `nowhere${evil}`],
  ["inspect", "run", `nobody${evil}`],
  ["compare", "run", `nowhere${evil}`],
  ["export", "run", "--format", `none${evil}`],
  [`nothing${evil}`],
  ["rollout", `--nothing${evil}`],
  ["rollout", "--env", `./nowhere${evil}`],
  ["view", `nowhere${evil}`],
  ["eval", "--from", `nowhere${evil}`],
  ["tokens", `nowhere${evil}`],
  ["doctor", "template", `nowhere${evil}`],
];

describe("a hostile world", () => {
  it("cannot act on a terminal while it runs", () => {
    expect(rollout.stderr + rollout.stdout).toContain("FORGED");
    expectHarmless(rollout.stdout);
    expectHarmless(rollout.stderr);
  });

  it.each(commands.map((argv) => [argv] as const))("nor where its run is read: %j", async (argv) => {
    const { stdout, stderr } = await cli.run(...argv);
    expectHarmless(stdout);
    expectHarmless(stderr);
    if (argv.includes("--json") && stdout !== "") JSON.parse(stdout);
  });

  it("says in JSON what the files say", async () => {
    const { stdout } = await cli.run("inspect", "run", "1", "--json");
    const [line = ""] = (await readFile(join(cli.folder, "run", "episodes.jsonl"), "utf8")).split("\n");
    const { checksum: _, ...stored } = JSON.parse(line) as Record<string, unknown>;
    expect(JSON.parse(stdout)).toMatchObject({ id: stored["id"], task: stored["task"] });
  });

  it("cannot act through colours that it writes itself", async () => {
    const coloured = await createTestCli({ FORCE_COLOR: "1" });
    const run = join(cli.folder, "run");
    for (const argv of [
      ["inspect", run],
      ["inspect", run, "1"],
      ["eval", "--from", run],
    ]) {
      const { stdout, stderr } = await coloured.run(...argv);
      // oxlint-disable-next-line no-control-regex
      expectHarmless((stdout + stderr).replaceAll(/\u001b\[\d{1,2}m/g, ""));
    }
  });
});
