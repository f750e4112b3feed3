// Processes that a rollout over a server of tools leaves running: none, even if servers wait or
// never start.

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { rollout } from "./rollout.ts";

/** A server that records its process id and, unless mute, answers. */
const server = `
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";
appendFileSync(process.argv[2], process.pid + "\\n");
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (process.argv[3] === "mute" || id === undefined) return;
  const about = { capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } };
  const tools = [{ name: "look", inputSchema: { type: "object" } }];
  const result = method === "initialize" ? { ...about, protocolVersion: params.protocolVersion } : { tools };
  console.log(JSON.stringify({ jsonrpc: "2.0", id, result }));
});`;

let cwd = "";
beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), "trainable-agents-"));
  await writeFile(join(cwd, "server.mjs"), server);
  await writeFile(join(cwd, "grader.mjs"), "export default () => 1;");
  await writeFile(join(cwd, "tasks.jsonl"), '{"id": "a", "instruction": "Go.", "grader": "./grader.mjs"}\n');
});
afterEach(() => rm(cwd, { recursive: true }));

function isRunning(processId: number): boolean {
  try {
    process.kill(processId, 0);
    return true;
  } catch {
    return false;
  }
}

it.each(["speaks", "mute"])("rollout() ends the processes that wait for episodes (server %s)", async (mode) => {
  const pids = join(cwd, "pids");
  const { totals } = await rollout({
    env: `mcp:${process.execPath} ${join(cwd, "server.mjs")} ${pids} ${mode}`,
    envTasks: "tasks.jsonl",
    engine: "embedded",
    model: "bookshop-1m",
    maxTurns: 1,
    maxNewTokens: 4,
    groupSize: 2,
    openTimeout: 2,
    mcpWarm: 2,
    cwd,
    out: "run",
  });
  expect(totals.episodesFinished).toBe(2);
  const started = (await readFile(pids, "utf8")).trim().split("\n").map(Number);
  expect(started.length).toBeGreaterThan(2);
  await expect.poll(() => started.filter(isRunning)).toEqual([]);
});
