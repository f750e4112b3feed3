// `gateway` with programs that it runs itself, killed as a machine kills it and started again in the same folder: every session of
// every task is run to its end once, and what a killed program had sampled is dropped. The process runs from dist/.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { bundledProgram, killProcess } from "../../tests/bundled-program.ts";
import type { Episode } from "../core/index.ts";
import { episodeSamples } from "../rollout/index.ts";
import { openRunFolder } from "../store/index.ts";

/** Three turns, slow enough to be killed between them; one program ends with an error. */
const agent = `
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
  root = await mkdtemp(join(tmpdir(), "gateway-kill-"));
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

function startGateway(): { readonly output: () => string; readonly ended: Promise<unknown> } {
  const flags = [
    "--engine",
    "embedded",
    "--out",
    "run",
    "--listen",
    "127.0.0.1:0",
    "--group-size",
    "2",
    "--concurrency",
    "2",
  ];
  const agents = ["--agent-command", `"${process.execPath}" agent.mjs`, "--agent-tasks", "tasks.jsonl"];
  const started = spawn(process.execPath, [program, "gateway", ...flags, ...agents], { cwd: root });
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
  for (const afterMs of [1500, 2500]) {
    const { output, ended } = startGateway();
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, afterMs))]);
    expect(output()).not.toContain("Cannot");
    await killProcess(child);
  }
  const { output, ended } = startGateway();
  await ended;
  expect(output()).toMatch(/\d runs, /);
  const all = await episodes();
  expect(all.map(({ id }) => id).toSorted()).toEqual(["broken#0", "broken#1", "one#0", "one#1", "two#0", "two#1"]);
  expect(all.filter(({ reward }) => reward === 3)).toHaveLength(4);
  for (const episode of all) {
    const isBroken = episode.id.startsWith("broken");
    expect([episode.outcome, episode.reward]).toEqual(isBroken ? ["aborted", null] : ["completed", 3]);
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
  expect(groups.map(({ groupId, decision, reason }) => `${groupId}: ${reason ?? decision}`).toSorted()).toEqual([
    "broken: not-graded",
    "one: kept",
    "two: kept",
  ]);
});
