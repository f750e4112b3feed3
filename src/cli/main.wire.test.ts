// The program as users run it: the built file, in a process of its own. Tests that start many
// processes use its bundle after the first.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { copyFile, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { bundledProgram } from "../../tests/bundled-program.ts";
import { repositoryRoot } from "../../tests/conformance/shared-folder.ts";
import { systemClock } from "../lib/clock.ts";
import { createFunctionSampler, createSglangFront, type Sampler } from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { createTestCli } from "./cli.test-helper.ts";
import { createExpertSampler } from "../environments/bookshop/index.ts";

const program = join(repositoryRoot(), "dist", "cli", "main.js");
const tokenizer = createReadableTokenizer();
const endTokenId = tokenizer.tokenId("<|im_end|>") ?? 0;

type Ended = { readonly code: number | null; readonly stdout: string; readonly stderr: string };

type RunOptions = {
  readonly cwd: string;
  /** Flags of Node itself. */
  readonly nodeFlags?: readonly string[];
  readonly program?: string;
  readonly onStart?: (child: ChildProcess) => void;
  /** Called with all output so far. */
  readonly onStderr?: (text: string) => void;
};

function run(argv: readonly string[], options: RunOptions): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const parameters = [...(options.nodeFlags ?? []), options.program ?? program, ...argv];
    const child = spawn(process.execPath, parameters, { cwd: options.cwd, stdio: ["ignore", "pipe", "pipe"] });
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

/** Training rows, in an order that does not depend on the order of the episodes. */
async function rowsOf(folder: string): Promise<readonly string[]> {
  const text = await readFile(join(folder, "samples.jsonl"), "utf8");
  const rows = text.split("\n").filter((line) => line !== "");
  return rows
    .map((line) => {
      const { tokens, loss_mask, rollout_log_probs, reward } = JSON.parse(line) as Readonly<Record<string, unknown>>;
      return JSON.stringify([tokens, loss_mask, rollout_log_probs, reward]);
    })
    .toSorted();
}

describe.skipIf(!existsSync(program))("the built program (needs npm run build)", () => {
  it("starts, exits by itself, and gives a mistake the code 2", async () => {
    const cwd = await newFolder();
    const started = await run(["start", "--tasks", "0"], { cwd });
    expect(started.code).toBe(0);
    expect(started.stdout).toContain("Look closer:");
    const mistaken = await run(["rollout", "--env", "nope"], { cwd });
    expect(mistaken).toMatchObject({ code: 2, stdout: "" });
    expect(mistaken.stderr).toMatch(/^Cannot find environment "nope"/);
  });

  it("says which Node it needs before it imports what an older one cannot read", async () => {
    const cwd = await newFolder();
    // No other file is in the folder, so that any further import would fail.
    for (const name of ["main.js", "node-problem.js"]) await copyFile(join(program, "..", name), join(cwd, name));
    await writeFile(join(cwd, "package.json"), '{ "type": "module" }');
    const older = 'Object.defineProperty(process.versions, "node", { value: "18.20.8" });';
    const nodeFlags = ["--import", `data:text/javascript,${encodeURIComponent(older)}`];
    expect(await run(["--help"], { cwd, nodeFlags, program: join(cwd, "main.js") })).toEqual({
      code: 2,
      stdout: "",
      stderr:
        "Cannot run with Node 18.20.8: trainable-agents needs Node >= 20.19. Install a newer Node and run the command again.\n",
    });
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
      const flags = ["--url", listener.url, "--model", "readable", "--tasks", "0", "--max-turns", "2"];
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
        stderr: expect.stringContaining("no shelf (throws.ts:2:7); correct the module") as string,
      });
    } finally {
      await listener.close();
    }
  });

  it("stops at Ctrl-C, gently or at once, and goes on with the command it prints as if nothing had been", async () => {
    const expert = createExpertSampler({ tokenizer, noise: 0.2 });
    let onAnswer: () => Promise<void> = () => Promise.resolve();
    const sampler: Sampler = {
      sample: async (request) => {
        await onAnswer();
        return expert.sample(request);
      },
    };
    const listener = await createSglangFront({ sampler, tokenizer, endTokenIds: [endTokenId] }).listen();
    const flags = [
      "--url",
      listener.url,
      "--model",
      "readable",
      "--tasks",
      "0-19",
      "--seed-turns",
      "--write-samples",
      "--out",
      "r",
    ];
    const begin = ["rollout", ...flags, "--concurrency", "6"];
    const cwd = await newFolder();
    const bundle = await bundledProgram("dist/cli/main.js");
    /**
     * Presses Ctrl-C at an answer, and optionally once more while the policy gives no further
     * answer.
     */
    const interrupt = (argv: readonly string[], options: { readonly at: number; readonly twice: boolean }) => {
      let press = (): void => undefined;
      let answers = 0;
      let second: Promise<void> | null = null;
      onAnswer = () => {
        if (++answers === options.at) press();
        return options.twice && answers > options.at ? new Promise(() => undefined) : Promise.resolve();
      };
      return run(argv, {
        cwd,
        program: bundle,
        onStart: (child) => {
          press = () => void child.kill("SIGINT");
        },
        onStderr: (text) => {
          if (!options.twice || !text.includes("Press Ctrl-C again")) return;
          // Two presses at once count as one: npm repeats the signal that the terminal has already
          // sent.
          second ??= systemClock.sleep(400).then(() => press());
        },
      });
    };
    const undisturbed = await createTestCli();
    try {
      expect((await undisturbed.run(...begin)).code).toBe(0);

      const gentle = await interrupt(begin, { at: 20, twice: false });
      expect(gentle.stderr).toMatch(
        /Interrupted: \d+ running episodes are finished and kept, and no further one starts/,
      );
      expect(gentle.code).toBe(130);
      const goOn = /resume +node \S+ (rollout --resume r)\n/.exec(gentle.stdout)?.[1]?.split(" ") ?? [];
      expect(goOn).toEqual(["rollout", "--resume", "r"]);

      const hard = await interrupt(goOn, { at: 10, twice: true });
      expect(hard.stderr).toMatch(/resuming: \d+ episodes have ended, 0 resume/);
      expect(hard.stderr).toMatch(
        /Stopping: everything so far is in the journal. Resume with: node \S+ rollout --resume r/,
      );
      expect(hard.code).toBe(130);

      onAnswer = () => Promise.resolve();
      const last = await run(goOn, { cwd, program: bundle });
      expect(last.stderr).toMatch(/resuming: \d+ episodes have ended, [1-6] resume at the turn where they stopped/);
      expect(last.code).toBe(0);
    } finally {
      await listener.close();
    }
    const [wanted, got] = await Promise.all([rowsOf(join(undisturbed.folder, "r")), rowsOf(join(cwd, "r"))]);
    expect(wanted.length).toBeGreaterThanOrEqual(20);
    expect(got).toEqual(wanted);
    // The test starts five whole processes, on machines that do other work as well.
  }, 240_000);

  it("is interrupted by Ctrl-C, does not wait when told to end, and leaves a folder that can be read", async () => {
    const cwd = await newFolder();
    let kill: (signal: NodeJS.Signals) => void = () => undefined;
    let asked = 0;
    let isTold = false;
    // A policy that never ends its turn, so that episodes would run forever.
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
        program: await bundledProgram("dist/cli/main.js"),
        onStart: (child) => {
          kill = (signal) => child.kill(signal);
        },
        onStderr: (text) => {
          if (isTold || !text.includes("Interrupted:")) return;
          isTold = true;
          kill("SIGTERM");
        },
      });
      expect(stderr).toContain("Interrupted: 10 running episodes are finished and kept");
      expect(stderr).toContain("Stopping: everything so far is in the journal.");
      expect(code).toBe(130);
    } finally {
      await listener.close();
    }
    const inspected = await run(["inspect", "r"], { cwd });
    expect(inspected.code).toBe(0);
    expect(inspected.stdout).toContain("interrupted");
  });
});
