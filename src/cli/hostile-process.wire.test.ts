// Environments that block or end the process, or throw where nothing awaits them: the built
// program, in a process of its own. Faults that stay within an episode are tested in
// `runs/hostile-environments.test.ts`.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bundledProgram } from "../../tests/bundled-program.ts";
import { repositoryRoot } from "../../tests/conformance/shared-folder.ts";
import { openRunFolder } from "../store/index.ts";
import { createFunctionSampler, createSglangFront } from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";

const environments = join(repositoryRoot(), "dist", "environments", "index.js");
const tokenizer = createReadableTokenizer();
const endTokenId = tokenizer.tokenId("<|im_end|>") ?? 0;

/** Task 0 runs `hostile`, which is on line four. */
const moduleText = (hostile: string): string => `
import { defineEnvironment } from ${JSON.stringify(environments)};
const meet = async (state, sync) => {
  ${hostile}
};
const agenda = { greetings: [""], slots: [], farewells: ["Bye."], patience: 3, goals: [{ name: "a", requests: ["Look."], slots: [], confirmation: null, secondThought: null, settledBy: ["x"], objections: [] }] };
export default defineEnvironment({
  name: "lamp",
  guidelines: "Look.",
  tools: { look: { description: "Looks.", parameters: { type: "object" }, endsEpisode: true, run: (_, state) => (state.isHostile && globalThis.process.env.MEND === undefined ? meet(state) : "on") } },
  tasks: { test: [0, 1, 2, 3].map((index) => ({ agenda, state: { isHostile: index === 0 } })) },
  grade: () => 1,
});
`;

type Ended = { readonly code: number | null; readonly stdout: string; readonly stderr: string };

let program = "";
let folder = "";
let url = "";
let closeFront = (): Promise<unknown> => Promise.resolve();

beforeAll(async () => {
  program = await bundledProgram("dist/cli/main.js");
  folder = await mkdtemp(join(tmpdir(), "hostile-process-"));
  const ids = [...tokenizer.encode('<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'), endTokenId];
  const front = createSglangFront({
    sampler: createFunctionSampler(() => ({ ids })),
    tokenizer,
    endTokenIds: [endTokenId],
  });
  const listener = await front.listen();
  ({ url } = listener);
  closeFront = () => listener.close();
});
afterAll(async () => {
  await closeFront();
  await rm(folder, { recursive: true, force: true });
});

function run(argv: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [program, ...argv], {
      cwd: folder,
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const written = { stdout: "", stderr: "" };
    child.stdout.setEncoding("utf8").on("data", (text: string) => (written.stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (written.stderr += text));
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, ...written }));
  });
}

async function play(name: string, hostile: string): Promise<Ended> {
  await writeFile(join(folder, `${name}.mjs`), moduleText(hostile));
  const limits = ["--environment-timeout", "2", "--concurrency", "1"];
  return run(["rollout", "--env", `./${name}.mjs`, "--url", url, "--model", "readable", ...limits, "--out", name]);
}

/** The run resumes once its environment is corrected, ends, and can be exported. */
async function expectResumable(name: string): Promise<void> {
  expect(await run(["inspect", name])).toMatchObject({ code: 0 });
  expect(await run(["rollout", "--resume", name], { MEND: "1" })).toMatchObject({ code: 0 });
  expect(await run(["export", name, "--format", "slime", "--output", `${name}.jsonl`])).toMatchObject({ code: 0 });
  expect((await readFile(join(folder, `${name}.jsonl`), "utf8")).trimEnd().split("\n")).toHaveLength(4);
}

/** A record without its times and the checksum over it. */
function withoutTimes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutTimes);
  if (typeof value !== "object" || value === null) return value;
  const kept = Object.entries(value).filter(([name]) => !/Ms$|At$|^crc32$|[tT]ime|[dD]uration/.test(name));
  return Object.fromEntries(kept.map(([name, one]) => [name, withoutTimes(one)]));
}

describe.skipIf(!existsSync(environments))("the built program (needs npm run build)", () => {
  it("a run of several processes survives an episode that ends each of them, and records why it failed", async () => {
    await writeFile(
      join(folder, "deadly.mjs"),
      moduleText('process.kill(process.pid, "SIGKILL"); await new Promise(() => {});'),
    );
    const flags = [
      "--env",
      "./deadly.mjs",
      "--url",
      url,
      "--model",
      "readable",
      "--group-size",
      "2",
      "--processes",
      "2",
    ];
    const { code, stderr } = await run(["rollout", ...flags, "--out", "deadly"]);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    const endings: string[] = [];
    for await (const { id, outcome, failure } of openRunFolder(join(folder, "deadly")).episodes()) {
      endings.push(`${id} ${outcome} ${failure?.boundary ?? ""} ${failure?.code ?? ""}`.trim());
    }
    expect(endings.toSorted()).toEqual(
      [0, 1]
        .flatMap((sample) => [
          `lamp:test:0#${sample} failed queue worker-died`,
          ...[1, 2, 3].map((task) => `lamp:test:${task}#${sample} completed`),
        ])
        .toSorted(),
    );
    // Five for each of the two at most, as both may end with one process.
    expect(stderr.match(/ended by SIGKILL/g)!.length).toBeGreaterThanOrEqual(5);
    expect(stderr.match(/ended by SIGKILL/g)!.length).toBeLessThanOrEqual(10);
    // Each death costs the start of a process.
  }, 240_000);

  it.each([
    ["loop", "while (true) {}"],
    ["loop-later", "await null; while (true) {}"],
    ["microtasks", "while (true) await null;"],
    ["wait", "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);"],
  ])("names a tool that never yields (%s), and ends with 70", async (name, hostile) => {
    const { code, stderr } = await play(name, hostile);
    expect(stderr).toMatch(
      /Cannot continue: .* of environment ".*mjs" has not yielded for 2 seconds, at .*mjs:4:\d+ \(meet\)\..*Resume with: .*--resume/s,
    );
    if (name === "loop") expect(stderr).toContain('tool "look" in task "lamp:test:0" of environment "./loop.mjs"');
    expect(code).toBe(70);
    // One case of each kind; every case in full runs.
    if (name === "loop" || name === "exit" || process.env["FULL"] === "1") await expectResumable(name);
  });

  it.each([
    ["exit", "process.exit(0);", 'environment "./exit.mjs" called process.exit at .*exit.mjs:4:'],
    ["exit-later", "setTimeout(process.exit, 1); await new Promise(() => {});", "the process was ended"],
  ])("names an environment that ends the process (%s)", async (name, hostile, message) => {
    const { code, stderr } = await play(name, hostile);
    expect(stderr).toMatch(new RegExp(`Cannot continue: ${message}`));
    expect(stderr).toMatch(/Resume with: .*--resume/);
    expect(code).toBe(70);
    // One case of each kind; every case in full runs.
    if (name === "loop" || name === "exit" || process.env["FULL"] === "1") await expectResumable(name);
  });

  it.each([
    [
      "throws-later",
      'setTimeout(() => { throw new Error("boom"); }, 1); await new Promise((done) => setTimeout(done, 50)); return "on";',
      "boom \\(.*mjs:4:",
    ],
    [
      "rejects-later",
      'void Promise.reject(new Error("boom")); await new Promise((done) => setTimeout(done, 50)); return "on";',
      "boom \\(.*mjs:4:",
    ],
    [
      "throws-null-later",
      'setTimeout(() => { throw null; }, 1); await new Promise((done) => setTimeout(done, 50)); return "on";',
      "null",
    ],
    ["leaves", 'process.chdir("/"); process.exitCode = 9; console.log("noise"); return "on";', null],
  ] as const)("goes on when an environment misbehaves beside its calls (%s)", async (name, hostile, warning) => {
    const { code, stderr } = await play(name, hostile);
    if (warning !== null) {
      expect(stderr).toMatch(
        new RegExp(`Warning: environment ".*mjs" raised an error outside of its calls: ${warning}`),
      );
    }
    expect(code).toBe(0);
    const exported = await run(["export", name, "--format", "slime", "--output", `${name}.jsonl`]);
    expect(exported).toMatchObject({ code: 0 });
    expect((await readFile(join(folder, `${name}.jsonl`), "utf8")).trimEnd().split("\n")).toHaveLength(4);
  });

  it("keeps what an episode changes of the objects that all code shares from the episodes after it, and says so", async () => {
    const recorded = async (name: string): Promise<readonly string[]> => {
      const lines = (await readFile(join(folder, name, "episodes.jsonl"), "utf8")).trimEnd().split("\n");
      return lines.map((line) => JSON.stringify(withoutTimes(JSON.parse(line)))).toSorted();
    };
    const plain = await play("plain", 'return "on";');
    expect(plain).toMatchObject({ code: 0, stderr: expect.not.stringContaining("Warning") as string });
    const expected = await recorded("plain");
    expect(expected).toHaveLength(4);
    const changes = {
      "Object.prototype.extra": "Object.prototype.extra = 7;",
      "Object.prototype.toJSON":
        'Object.defineProperty(Object.prototype, "toJSON", { value: () => 5, configurable: true });',
      "Array.prototype.map": "await null; Array.prototype.map = () => [];",
      "JSON.stringify": "JSON.stringify = () => '{}';",
      "Object.prototype.late":
        "setTimeout(() => { Object.prototype.late = 5; }, 0); await new Promise((done) => setTimeout(done, 5));",
    };
    for (const [name, change] of Object.entries(changes)) {
      const { code, stderr } = await play(name, `${change} return "on";`);
      expect({ name, code, episodes: await recorded(name) }).toEqual({ name, code: 0, episodes: expected });
      expect(stderr).toMatch(
        new RegExp(`Warning: Code of a module changed ${name.replaceAll(".", "\\.")}[^]*the change was undone`),
      );
    }
  }, 120_000);

  it("ends an episode whose tool waits for ever, and nothing else", async () => {
    const { code } = await play("never", "await new Promise(() => {});");
    expect(code).toBe(0);
    const lines = (await readFile(join(folder, "never", "episodes.jsonl"), "utf8")).trimEnd().split("\n");
    const failures = lines.map(
      (line) => (JSON.parse(line) as { failure: { boundary: string; code: string } | null }).failure,
    );
    expect(failures.filter((failure) => failure !== null)).toMatchObject([
      { boundary: "environment", code: "timeout" },
    ]);
  });
});
