// `doctor environment` by name, by file and by address; and `init environment`, whose folder is
// tested, type-checked and run as by its users.

import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { serveEnvironment } from "../api/env-server.ts";
import type { AuditEnvironmentResult } from "../api/audit-environment.ts";
import { createTestCli, readAll } from "./cli.test-helper.ts";

const root = join(import.meta.dirname, "../..");

const moduleOf = (agenda: string, grade = "({ state }) => (state.on ? 1 : 0)") => `
import { defineEnvironment } from "trainable-agents/environments";
const slot = (phrases) => ({ name: "colour", phrases, answers: ["Blue, please."] });
const goal = { name: "paint", requests: ["Paint it?"], slots: [], confirmation: null, secondThought: null, settledBy: ["painted"], objections: [] };
const agenda = (goals) => ({ greetings: ["Hello."], slots: [], goals, farewells: ["Bye."], patience: 3 });
export default defineEnvironment({
  name: "wall",
  guidelines: "Paint.",
  tools: { paint: { description: "Paints.", parameters: { type: "object", properties: {} }, run: () => 1 } },
  tasks: { test: [{ agenda: agenda(${agenda}), state: {} }] },
  grade: ${grade},
});`;

async function withModule(text: string) {
  const cli = await createTestCli();
  await mkdir(join(cli.folder, "node_modules"));
  await symlink(root, join(cli.folder, "node_modules", "trainable-agents"), "junction");
  await writeFile(join(cli.folder, "wall.mjs"), text);
  return cli;
}

describe("doctor environment", () => {
  it("examines what comes with the package", async () => {
    const { run } = await createTestCli();
    const { code, stdout, stderr } = await run("doctor", "environment", "bookshop", "--task-count", "2");
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(/^bookshop: tasks train \d+, validation \d+, test \d+; users agenda/);
    expect(stdout).toMatch(
      /^ {2}ok +constant policy +20 policies that do the same in 6 tasks: none earned more than 0\.$/m,
    );
    expect(stdout).toMatch(/user "agenda" begins: "H/);
    expect(stdout).toMatch(/\b0 warnings, 0 faults\n$/);
  });

  it("names what an agent cannot get out of an agenda", async () => {
    const goals = `[{ ...goal, slots: [slot([]), slot(["Colour"]), slot(["e-mail"]), slot([""])], settledBy: [],
      confirmation: { mustName: [["blue"], []], corrections: ["No."] } }]`;
    const { run } = await withModule(moduleOf(goals));
    const { code, stdout } = await run("doctor", "environment", "./wall.mjs", "--json");
    expect(code).toBe(0);
    const { findings } = JSON.parse(stdout) as AuditEnvironmentResult;
    const gaps = findings.filter(({ check }) => check === "agenda").map(({ text }) => text.replace(/^.*first, /, ""));
    expect(gaps).toEqual([
      'slot "colour" has no phrase that asks for it.',
      'slot "colour" is not asked for by its phrase "Colour": write it in lower case.',
      'slot "colour" is not asked for by its phrase "e-mail": write words of letters and digits, without signs in them.',
      'slot "colour" is asked for by every question, because its phrase "" is part of each.',
      'goal "paint" has a thing in mustName without a way of naming it: no proposal is right.',
    ]);
  });

  it("finds a goal that only a refusal settles", async () => {
    const { run } = await withModule(moduleOf("[{ ...goal, settledBy: [] }]"));
    const { stdout } = await run("doctor", "environment", "wall.mjs");
    expect(stdout).toMatch(/^ {2}warning {2}agenda .*neither a confirmation nor settledBy: only a refusal settles it/m);
  });

  it("ends with code 1 for a fault, with the remedy", async () => {
    const { run } = await withModule(moduleOf("[goal]", "() => 1"));
    const { code, stdout } = await run("doctor", "environment", "./wall.mjs");
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /^ {2}fault +constant policy +Every one of .* Remedy: let grade look at what the episode changed\.$/m,
    );
  });

  it("examines a world behind an address, with calls that the loop would let through", async () => {
    const server = await serveEnvironment({ env: "bookshop", listen: "127.0.0.1:0" });
    try {
      const { run } = await createTestCli();
      const flags = ["--task-count", "1", "--call-count", "8"];
      const { code, stdout, stderr } = await run("doctor", "environment", `mcp:${server.url}/mcp`, ...flags);
      expect([code, stderr], stdout).toEqual([0, ""]);
      expect(stdout).toMatch(/^ {2}ok +determinism +The same calls under the same seed gave/m);
      await expect.poll(() => server.sessions().opened - server.sessions().closed).toBe(0);
    } finally {
      await server.close();
    }
  });

  it.each([
    [["environment"], 'none is named; write "doctor environment <name, module or address>"'],
    [["environment", "bookshpo"], 'did you mean "bookshop"?'],
    [["environment", "./nowhere.mjs"], "there is no file"],
    [["environment", "bookshop", "--split", "dev"], "it has train, validation, test, fresh:<seed>; correct --split"],
    [["environment", "bookshop", "--task-count", "0"], "a whole number"],
    [["environment", "mcp:http://127.0.0.1:9/mcp"], "Cannot"],
  ])("%j is refused with the remedy, and code 2", async (given, message) => {
    const { run } = await createTestCli();
    const { code, stdout, stderr } = await run("doctor", ...given);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toContain(message);
  });
});

describe("init environment", () => {
  it.each([
    ["museum-tours", "above the folder", "installed"],
    ["pizza", "nowhere, as in a clone", "linked"],
  ] as const)("writes a folder %s whose test, types and rollout work, with the package %s", async (name, _, found) => {
    const cli = found === "installed" ? await withModule("") : await createTestCli();
    const { code, stdout } = await cli.run("init", "environment", name, "--to", "mine");
    expect([code, stdout]).toEqual([0, expect.stringContaining("Next: cd mine && npm test && npm run rollout")]);
    const folder = join(cli.folder, "mine");
    expect((await readdir(folder)).includes("node_modules")).toBe(found === "linked");
    const listed = stdout.split(" in mine")[0]!.split(", ");
    expect(listed).toEqual([
      `${name}.ts`,
      `${name}.test.mjs`,
      "README.md",
      "package.json",
      "tsconfig.json",
      ".gitignore",
    ]);
    const texts = await Promise.all(listed.map((file) => readFile(join(folder, file), "utf8")));
    expect(texts[2]!.trimEnd().split("\n").length).toBeLessThanOrEqual(10);
    expect(texts.join("\n")).not.toMatch(/NAME|environment\.ts/);
    for (const text of texts.slice(0, 4)) expect(text).toContain(name);
    const npm = (...argv: readonly string[]) => promisify(execFile)("npm", argv, { cwd: folder });
    expect((await npm("test", "--", "--test-reporter=tap")).stdout).toContain("# pass 3");
    await promisify(execFile)(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", "."], {
      cwd: folder,
    });
    const program = found === "linked" ? ["run", "rollout", "--"] : ["exec", "--no", "--", join(root, "dist/cli/main.js"), ...`rollout --env ./${name}.ts --user agenda --engine embedded`.split(" ")]; // prettier-ignore
    await npm(...program, "--model", "bookshop-nano", "--tasks", "0", "--max-turns", "2", "--out", "run");
    expect(await readdir(join(folder, "run"))).toContain("episodes.jsonl");
    const manifest = JSON.parse(await readFile(join(folder, "run", "run.json"), "utf8")) as object;
    expect(manifest).toMatchObject({ environment: { name } });
  });

  it("leaves a folder that holds something as it is", async () => {
    const { run, folder } = await createTestCli();
    await mkdir(join(folder, "mine"));
    await writeFile(join(folder, "mine", "notes.txt"), "keep");
    await writeFile(join(folder, "file"), "keep");
    for (const [to, state] of [
      ["mine", 'it holds "notes.txt"'],
      ["file", "there is a file of that name"],
    ] as const) {
      const { code, stderr } = await run("init", "environment", "museum-tours", "--to", to);
      expect([code, stderr]).toEqual([2, expect.stringContaining(state)]);
      expect(stderr).toContain("name a folder that is new or empty");
    }
    expect([...(await readAll(folder)).keys()].toSorted()).toEqual(["file", join("mine", "notes.txt")]);
  });

  it.each([
    [["environment", "../x"], "expected a name of lowercase letters, digits and dashes"],
    [["environment", "Tour Desk"], "expected a name of lowercase letters, digits and dashes"],
    [["engine", "x"], 'write "init environment <name>"'],
    [["environment"], "<name> is missing"],
  ])("%j is refused with the remedy, and code 2", async (given, message) => {
    const { run, folder } = await createTestCli();
    const { code, stderr } = await run("init", ...given);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
    expect(await readdir(folder)).toEqual([]);
  });
});
