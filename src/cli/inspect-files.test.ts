// `inspect` of files of other tools, and reading a run from another folder than the one in which it
// began.

import { cp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { view } from "../api/view.ts";
import { createTestCli } from "./cli.test-helper.ts";
import { formatRate } from "./display/terminal-text.ts";

const sample = (id: string, epoch: number, value: string): object => ({
  id,
  epoch,
  input: "Cancel it.",
  target: "done",
  messages: [
    { role: "user", content: "Cancel it." },
    {
      role: "assistant",
      content: "",
      tool_calls: [{ id: "c", function: "cancel", arguments: { order: "W1\u001b[2J" } }],
    },
    { role: "tool", content: "cancelled", function: "cancel", tool_call_id: "c" },
    { role: "assistant", content: "Done." },
  ],
  scores: { match: { value } },
});
const log = {
  version: 2,
  status: "success",
  eval: { task: "shop", model: "m" },
  samples: [sample("one", 1, "C"), sample("two", 1, "I")],
};

describe("inspect of a file of another tool", () => {
  it("lists its episodes, shows one, and says the same in JSON", async () => {
    const { run, folder } = await createTestCli();
    await writeFile(join(folder, "log.json"), JSON.stringify(log));
    const list = await run("inspect", "log.json");
    expect([list.code, list.stderr]).toEqual([0, ""]);
    expect(list.stdout).toMatch(
      /^log\.json {2}inspect\n\n#.*\n1 .*one.* 1 .*\n2 .*two.* 0 .*\n\n2 of 2 episodes\nNext: /,
    );
    expect((await run("inspect", "log.json", "--outcome", "failing")).stdout).toContain("1 of 2 episodes");
    const shown = (await run("inspect", "log.json", "1")).stdout;
    expect(shown).toContain("user: Cancel it.\ncalls: cancel ");
    expect(shown).toContain("result of cancel: cancelled\nassistant: Done.");
    expect(shown).not.toContain("\u001b");
    const json = JSON.parse((await run("inspect", "log.json", "--json")).stdout) as {
      readonly rows: readonly { readonly reward: number }[];
    };
    expect(json.rows.map(({ reward }) => reward)).toEqual([1, 0]);
  });

  it.each([
    [["inspect", "log.json", "9"], "the file has 2 episodes"],
    [["inspect", "log.json", "1", "--tokens"], "names no tokenizer"],
    [["inspect", "log.json", "--outcome", "constructor"], "use passed or failing"],
  ])("refuses %j", async (argv, says) => {
    const { run, folder } = await createTestCli();
    await writeFile(join(folder, "log.json"), JSON.stringify(log));
    const { code, stderr } = await run(...argv);
    expect([code, stderr]).toEqual([2, expect.stringContaining(says)]);
  });
});

it("a run's model is found from any folder, and export takes --out", async () => {
  const { run, folder } = await createTestCli();
  await cp(join(import.meta.dirname, "../../models/bookshop-nano"), join(folder, "model"), { recursive: true });
  const flags = ["--engine", "embedded", "--model", join(folder, "model"), "--tasks", "0", "--out", "runs/one"];
  expect((await run("rollout", ...flags)).code).toBe(0);
  // The manifest now names the model by a relative path, as a user may give it.
  const manifest = join(folder, "runs", "one", "run.json");
  await writeFile(manifest, (await readFile(manifest, "utf8")).replaceAll(join(folder, "model"), "./model"));
  const elsewhere = await createTestCli();
  const one = join(folder, "runs", "one");
  const exported = await elsewhere.run("export", one, "--format", "slime", "--out", "rows.jsonl");
  expect([exported.code, exported.stderr]).toEqual([0, ""]);
  const tokens = await elsewhere.run("inspect", one, "1", "--tokens");
  expect([tokens.code, tokens.stderr]).toEqual([0, ""]);
  const viewer = await view({ sources: [one], port: 0, cwd: elsewhere.folder });
  try {
    const text = await fetch(new URL("api/text?id=1&run=0", viewer.url));
    // Without a tokenizer there would be no text: the four bytes of "null".
    expect((await text.arrayBuffer()).byteLength).toBeGreaterThan(1000);
  } finally {
    await viewer.close();
  }
  expect((await elsewhere.run("export", one, "--format", "slime")).stderr).toContain("pass --output <file>");
  expect((await elsewhere.run("export", one, "--format", "slime", "--out", "a", "--output", "b")).stderr).toContain(
    "both name the file",
  );
});

it("a speed below ten has a decimal", () => {
  expect([0, 0.44, 3.96, 9.94, 9.96, 12.4, 1234.5].map(formatRate)).toEqual([
    "0.0",
    "0.4",
    "4.0",
    "9.9",
    "10",
    "12",
    "1,235",
  ]);
});
