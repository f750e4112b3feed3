// `rollout` with programs that run its episodes, killed as a machine kills it and resumed: every
// episode of every task is completed once, and tokens that a killed program sampled are dropped.
// The process runs from dist/.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { bundledProgram, killProcess } from "../../tests/bundled-program.ts";
import type { Episode } from "../core/index.ts";
import { episodeSamples } from "../rollout/index.ts";
import { openRunFolder } from "../store/index.ts";

/**
 * A program with three turns, slow enough to be killed between them; one program ends with an
 * error.
 */
const agent = `
import { appendFileSync } from "node:fs";
const messages = [];
const { id } = JSON.parse(process.env.TRAINABLE_AGENTS_TASK);
for (const content of ["Hello.", "Tell me more.", "Goodbye."]) {
  messages.push({ role: "user", content });
  const answer = await fetch(process.env.OPENAI_BASE_URL + "/chat/completions", {
    method: "POST",
    headers: { authorization: "Bearer " + process.env.OPENAI_API_KEY, "content-type": "application/json" },
    body: JSON.stringify({ model: "policy", messages, max_tokens: 8 }),
  });
  messages.push((await answer.json()).choices[0].message);
  appendFileSync("answers", ".");
  await new Promise((resolve) => setTimeout(resolve, 100));
}
if (id === "broken") process.exit(3);
console.log(JSON.stringify({ reward: id.length }));
`;

let program = "";
let root = "";
let child: ChildProcess | null = null;
beforeEach(async () => {
  program = await bundledProgram("dist/cli/main.js");
  root = await mkdtemp(join(tmpdir(), "agent-command-kill-"));
  await writeFile(join(root, "agent.mjs"), agent);
  await writeFile(
    join(root, "tasks.jsonl"),
    ["one", "two", "broken"].map((id) => `${JSON.stringify({ id })}\n`).join(""),
  );
});
afterEach(async () => {
  await killProcess(child);
  await rm(root, { recursive: true });
});

function startRollout(isFirst: boolean): { readonly output: () => string; readonly ended: Promise<unknown> } {
  const flags = [
    ...["--env", "tasks.jsonl", "--agent-command", `"${process.execPath}" agent.mjs`, "--group-size", "2"],
    ...["--engine", "embedded", "--model", "bookshop-1m", "--concurrency", "2", "--out", "run"],
  ];
  const started = spawn(process.execPath, [program, "rollout", ...(isFirst ? flags : ["--resume", "run"])], {
    cwd: root,
  });
  child = started;
  let output = "";
  for (const stream of [started.stdout, started.stderr])
    stream.on("data", (bytes: Buffer) => (output += bytes.toString()));
  return { output: () => output, ended: once(started, "close") };
}

async function episodes(): Promise<Episode[]> {
  const found: Episode[] = [];
  for await (const episode of openRunFolder(join(root, "run")).episodes()) found.push(episode);
  return found;
}

test("runs every program to its end once, however often it is killed", async () => {
  // The rollout is killed in the middle of the first programs, and of later ones.
  for (const answers of [2, 7]) {
    const { output, ended } = startRollout(answers === 2);
    const state = { isEnded: false };
    void ended.then(() => (state.isEnded = true));
    while (!state.isEnded && (await readFile(join(root, "answers")).catch(() => "")).length < answers) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(output()).not.toContain("Cannot");
    expect(state.isEnded).toBe(false);
    await killProcess(child);
  }
  const { output, ended } = startRollout(false);
  await ended;
  expect(output()).toMatch(/mean reward/i);
  const all = await episodes();
  expect(all.map(({ task, sampleIndex }) => `${task.id} ${sampleIndex}`).toSorted()).toEqual(
    ["broken", "one", "two"].flatMap((id) => [`${id} 0`, `${id} 1`]),
  );
  expect(all.filter(({ reward }) => reward === 3)).toHaveLength(4);
  for (const episode of all) {
    const isBroken = episode.task.id === "broken";
    expect([episode.outcome, episode.reward]).toEqual(isBroken ? ["failed", null] : ["completed", 3]);
    // Three turns are trained, and those of a killed program are not.
    const { samples, dropped } = episodeSamples(episode);
    const trained = samples.flatMap(({ weightRanges, lossMask }) =>
      weightRanges.filter(({ start }) => lossMask[start] === 1),
    );
    expect(trained).toHaveLength(isBroken ? 0 : 3);
    expect(dropped).toHaveLength(episode.trajectory.turns.length - trained.length);
  }
  const groups = [];
  for await (const group of openRunFolder(join(root, "run")).groups()) groups.push(group);
  expect(groups.map(({ taskId, decision, reason }) => `${taskId}: ${reason ?? decision}`).toSorted()).toEqual([
    "broken: not-graded",
    "one: kept",
    "two: kept",
  ]);
});

test.skipIf(process.platform !== "linux")(
  "what its programs have detached ends with SIGTERM, and after a kill with the next start",
  async () => {
    const beat = "setInterval(() => require('node:fs').appendFileSync('beats', '.'), 10)";
    const detached = `
import { spawn } from "node:child_process";
spawn("setsid", [process.execPath, "-e", ${JSON.stringify(beat)}], { detached: true, stdio: "ignore" }).unref();
await new Promise((resolve) => setTimeout(resolve, 60_000));
`;
    await writeFile(join(root, "agent.mjs"), detached);
    const beats = async (): Promise<number> => (await readFile(join(root, "beats")).catch(() => "")).length;
    const isBeating = async (): Promise<boolean> => {
      const before = await beats();
      await new Promise((resolve) => setTimeout(resolve, 200));
      return (await beats()) > before;
    };
    startRollout(true);
    await expect.poll(beats, { timeout: 30_000 }).toBeGreaterThan(0);
    await killProcess(child);
    expect(await isBeating()).toBe(true);
    const { ended, output } = startRollout(false);
    await expect.poll(output, { timeout: 30_000 }).toContain("resuming");
    // The new process has ended the programs that the killed one left, and starts its own.
    await rm(join(root, "beats"));
    await expect.poll(beats, { timeout: 30_000 }).toBeGreaterThan(0);
    child!.kill("SIGTERM");
    await ended;
    expect(child!.exitCode).toBe(130);
    expect(await isBeating()).toBe(false);
  },
);
