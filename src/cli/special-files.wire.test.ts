// Pipes, sockets and devices in every place where a command reads a file that the user named: each
// is refused at once, and no process hangs.

import { execFile, execFileSync } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestCli } from "./cli.test-helper.ts";

const program = join(import.meta.dirname, "../../dist/cli/main.js");
let folder = "";
let server: Server;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "special-"));
  const cli = await createTestCli();
  await cli.run("rollout", "--engine", "expert", "--tasks", "0", "--out", join(folder, "run"));
  execFileSync(
    "mkfifo",
    ["pipe", "pipe.mjs", "pipe.yaml", "pipe.jsonl"].map((name) => join(folder, name)),
  );
  await symlink(join(folder, "pipe"), join(folder, "link"));
  await symlink("/dev/zero", join(folder, "zero"));
  server = createServer().listen(join(folder, "socket"));
  for (const [name, replaced] of [
    ["no-manifest", "run.json"],
    ["no-episodes", "episodes.jsonl"],
    ["no-index", "episodes.index.jsonl"],
  ] as const) {
    // prettier-ignore
    await cp(join(folder, "run"), join(folder, name), { recursive: true });
    await rm(join(folder, name, replaced), { force: true });
    execFileSync("mkfifo", [join(folder, name, replaced)]);
  }
  await mkdir(join(folder, "model"));
  execFileSync("mkfifo", [join(folder, "model", "tokenizer.json")]);
}, 120_000);

afterAll(async () => {
  server.close();
  await rm(folder, { recursive: true });
});

/** The exit code and the output; a process that is killed for exceeding its time has no code. */
function run(argv: readonly string[]): Promise<{ readonly code: number | null; readonly written: string }> {
  return new Promise((resolve) => {
    const options = { cwd: folder, timeout: 30_000, killSignal: "SIGKILL" as const };
    const child = execFile(process.execPath, [program, ...argv], options, (_, stdout, stderr) =>
      resolve({ code: child.exitCode, written: stdout + stderr }),
    );
  });
}

const expert = ["rollout", "--engine", "expert", "--tasks", "0", "--out", "other"];
const reads: Readonly<Record<string, (name: string) => readonly string[]>> = {
  view: (name) => ["view", name],
  inspect: (name) => ["inspect", name],
  compare: (name) => ["compare", name, "run"],
  export: (name) => ["export", name, "--format", "sft", "--output", "rows.jsonl"],
  tokens: (name) => ["tokens", name],
  "eval --from": (name) => ["eval", "--from", name],
  "eval --labels": (name) => ["eval", "--from", "run", "--labels", name],
  "rollout --config": (name) => ["rollout", "--config", name],
  "rollout --prices": (name) => [...expert, "--prices", name],
  "rollout --env-tasks": (name) => [...expert, "--env", "mcp:true", "--env-tasks", name],
  "rollout --model": (name) => ["rollout", "--engine", "embedded", "--model", name, "--out", "other"],
  "train --from": (name) => ["train", "--algorithm", "sft", "--from", name, "--out", "trained", "--minutes", "1"],
  "doctor template": (name) => ["doctor", "template", name],
  "view --logprobs": (name) => ["view", "run", "--logprobs", name],
};

describe("special files", () => {
  it.each(Object.entries(reads))("%s refuses a pipe", async (_, argv) => {
    const { code, written } = await run(argv("pipe"));
    expect([code, written]).toEqual([2, expect.stringMatching(/^Cannot /m)]);
    expect(written).not.toContain("should not happen");
  });

  it.each(["link", "zero", "socket"])("view, inspect and compare refuse %s", async (name) => {
    for (const argv of [
      ["view", name],
      ["inspect", name],
      ["compare", "run", name],
      ["eval", "--from", name],
    ]) {
      const { code, written } = await run(argv);
      expect([argv, code, written]).toEqual([argv, 2, expect.stringMatching(/^Cannot /m)]);
      expect(written).not.toContain("should not happen");
    }
  });

  it.each([
    [["view", "no-manifest"]],
    [["inspect", "no-manifest"]],
    [["inspect", "no-episodes"]],
    [["export", "no-episodes", "--format", "sft", "--output", "rows.jsonl"]],
    [["compare", "run", "no-episodes"]],
    [["rollout", "--engine", "embedded", "--model", "model", "--out", "other"]],
    [["doctor", "template", "model"]],
    [["rollout", "--env", "./pipe.mjs", "--engine", "expert", "--out", "other"]],
    [["rollout", "--env", "pipe.jsonl", "--agent-command", "true", "--engine", "none", "--out", "other"]],
  ])("a pipe within a folder, or of a module: %j", async (argv) => {
    const { code, written } = await run(argv);
    expect([code, written]).toEqual([2, expect.stringMatching(/named pipe/)]);
  });

  it("an index that is a pipe is read around", async () => {
    const { code } = await run(["inspect", "no-index"]);
    expect(code).toBeOneOf([0, 2]);
  });
});
