// The program as users run it: the built file, in a process of its own.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { repositoryRoot } from "../conformance/shared-folder.ts";
import { createFunctionSampler, createSglangFront } from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";

const program = join(repositoryRoot(), "dist", "cli", "main.js");
const tokenizer = createReadableTokenizer();
const endTokenId = tokenizer.tokenId("<|im_end|>") ?? 0;

type Ended = { readonly code: number | null; readonly stdout: string; readonly stderr: string };

type RunOptions = {
  readonly cwd: string;
  readonly onStart?: (child: ChildProcess) => void;
  /** Told all of it so far. */
  readonly onStderr?: (text: string) => void;
};

function run(argv: readonly string[], options: RunOptions): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [program, ...argv], { cwd: options.cwd, stdio: ["ignore", "pipe", "pipe"] });
    options.onStart?.(child);
    const written = { stdout: "", stderr: "" };
    child.stdout.setEncoding("utf8").on("data", (text: string) => (written.stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      written.stderr += text;
      options.onStderr?.(written.stderr);
    });
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, ...written }));
  });
}

const newFolder = (): Promise<string> => mkdtemp(join(tmpdir(), "trainable-agents-"));

describe.skipIf(!existsSync(program))("the built program (needs npm run build)", () => {
  it("starts, exits by itself, and gives a mistake the code 2", async () => {
    const cwd = await newFolder();
    const started = await run(["start"], { cwd });
    expect(started.code).toBe(0);
    expect(started.stdout).toContain("Look closer:");
    const mistaken = await run(["rollout", "--env", "nope"], { cwd });
    expect(mistaken).toMatchObject({ code: 2, stdout: "" });
    expect(mistaken.stderr).toMatch(/^Cannot find environment "nope"/);
  });

  it("plays an environment that is a TypeScript module, and names what is wrong with one", async () => {
    const cwd = await newFolder();
    const example = join(repositoryRoot(), "examples", "01-an-environment.ts");
    const front = createSglangFront({
      sampler: createFunctionSampler(() => ({ ids: [...tokenizer.encode("Goodbye."), endTokenId] })),
      tokenizer,
      endTokenIds: [endTokenId],
    });
    const listener = await front.listen();
    try {
      const flags = ["--url", listener.url, "--model", "readable", "--tasks", "0", "--max-steps", "2"];
      const played = await run(["rollout", "--env", example, ...flags, "--out", "r"], { cwd });
      expect(played.stderr).not.toContain("Cannot");
      expect(played.code).toBe(0);
      expect(await readFile(join(cwd, "r", "run.json"), "utf8")).toContain('"status": "done"');

      await writeFile(join(cwd, "empty.ts"), "export const nothing: number = 1;\n");
      await writeFile(join(cwd, "broken.ts"), "export default (;\n");
      await writeFile(join(cwd, "throws.ts"), 'const why: string = "no shelf";\nthrow new Error(why);\n');
      const empty = await run(["rollout", "--env", "./empty.ts", ...flags], { cwd });
      expect(empty).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("its default export has no name, splits") as string,
      });
      const broken = await run(["rollout", "--env", "./broken.ts", ...flags], { cwd });
      expect(broken).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('Cannot load environment "./broken.ts"') as string,
      });
      const throwing = await run(["rollout", "--env", "./throws.ts", ...flags], { cwd });
      expect(throwing).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("no shelf; correct the module") as string,
      });
    } finally {
      await listener.close();
    }
  });

  it("is interrupted by Ctrl-C, does not wait when told to end, and leaves a folder that can be read", async () => {
    const cwd = await newFolder();
    let kill: (signal: NodeJS.Signals) => void = () => undefined;
    let asked = 0;
    // A policy that never ends its turn, so that episodes would run for ever.
    const sampler = createFunctionSampler(() => {
      asked++;
      if (asked === 10) kill("SIGINT");
      return new Promise(() => undefined);
    });
    const listener = await createSglangFront({ sampler, tokenizer }).listen();
    try {
      const flags = ["--url", listener.url, "--model", "readable", "--tasks", "0-9", "--out", "r"];
      const { code, stderr } = await run(["rollout", ...flags], {
        cwd,
        onStart: (child) => {
          kill = (signal) => child.kill(signal);
        },
        onStderr: (text) => {
          if (text.includes("Interrupted:")) kill("SIGTERM");
        },
      });
      expect(stderr).toContain("Interrupted: 10 running episodes are finished");
      expect(stderr).toContain("Cancelling the running episodes.");
      expect(code).toBe(130);
    } finally {
      await listener.close();
    }
    const inspected = await run(["inspect", "r"], { cwd });
    expect(inspected.code).toBe(0);
    expect(inspected.stdout).toContain("interrupted");
  });
});
