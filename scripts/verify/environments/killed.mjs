// A rollout that is killed and resumed many times without a warning, so that sessions of the
// environment's server are not closed.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import { root } from "../../run-command.mjs";
import { readPlayed } from "./play.mjs";

const program = join(root, "dist", "cli", "main.js");

/**
 * @param {object} wanted
 * @param {string} wanted.env
 * @param {string | null} wanted.envTasks
 * @param {string} wanted.policy
 * @param {number} wanted.tasks
 * @param {number} wanted.kills
 * @param {number} wanted.groupSize
 */
export async function playKilled({ env, envTasks, policy, tasks, kills, groupSize }) {
  const work = mkdtempSync(join(tmpdir(), "verify-killed-"));
  const out = join(work, "run");
  const tasksFlag = envTasks === null ? [] : ["--env-tasks", envTasks];
  const begin = ["--env", env, ...tasksFlag, "--url", policy, "--model", "readable", "--tasks", `0-${tasks - 1}`];
  const first = [...begin, "--group-size", String(groupSize), "--concurrency", "2", "--max-turns", "12", "--out", out];
  const ended = () => (existsSync(join(out, "episodes.jsonl")) ? readFileSync(join(out, "episodes.jsonl"), "utf8").split("\n").length - 1 : 0); // prettier-ignore
  let killed = 0;
  try {
    for (let start = 0; start < 4 * kills; start++) {
      const flags = existsSync(join(out, "run.json")) ? ["--resume", out] : first;
      const child = spawn(process.execPath, [program, "rollout", ...flags, "--quiet"], {
        stdio: ["ignore", "ignore", "pipe"],
      });
      let words = "";
      child.stderr.setEncoding("utf8").on("data", (text) => (words += text));
      const exit = new Promise((resolve) => child.once("exit", resolve));
      if (killed < kills) {
        const before = ended();
        const limit = Date.now() + 20_000;
        // One in four dies before any episode has ended, while the environment is being queried or
        // opened.
        const isEarly = start % 4 === 3;
        if (isEarly) await delay(500 + 37 * (start % 11));
        else while (child.exitCode === null && ended() === before && Date.now() < limit) await delay(10);
        if (!isEarly) await delay((start * 53) % 170);
        if (child.exitCode === null && child.kill("SIGKILL")) killed++;
        await exit;
        if (child.exitCode !== null && child.exitCode !== 0)
          throw new Error(`a rollout ended with ${child.exitCode}: ${words.slice(-500)}`);
        if (child.exitCode === 0 && killed < kills)
          throw new Error(`the run was done after ${killed} kills of ${kills}`);
      } else {
        await exit;
        if (child.exitCode !== 0)
          throw new Error(`the last rollout ended with ${child.exitCode}: ${words.slice(-500)}`);
        return { killed, played: await readPlayed(out) };
      }
    }
    throw new Error(`the run was killed ${killed} times of ${kills}`);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
