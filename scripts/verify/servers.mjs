// Programs that serve during a verification: started in process groups of their own, waited for
// until they answer, with their output kept in a file, and all ended, however the verification
// ends.

import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import { CannotVerify } from "./python.mjs";

/** @typedef {{ readonly url: string, readonly log: string, readonly pid: number, kill: () => Promise<void> }} Server */

/** @type {Set<number>} */
const groups = new Set();
process.on("exit", endAll);
for (const [signal, code] of /** @type {const} */ ([
  ["SIGINT", 130],
  ["SIGTERM", 143],
  ["SIGHUP", 129],
])) {
  process.on(signal, () => process.exit(code));
}

/**
 * Distinct ports that are free now and lie below those that systems give to outgoing connections:
 * one of those may be taken between now and the server's start.
 *
 * @param {number} count
 */
export async function freePorts(count) {
  /** @type {Set<number>} */
  const ports = new Set();
  while (ports.size < count) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    if (await isFree(port)) ports.add(port);
  }
  return [...ports];
}

/** @param {number} port @returns {Promise<boolean>} */
function isFree(port) {
  return new Promise((resolve) => {
    const server = createServer();
    server.on("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}

/**
 * @param {object} wanted
 * @param {string} wanted.name
 * @param {string} wanted.command
 * @param {readonly string[]} wanted.parameters
 * @param {NodeJS.ProcessEnv} [wanted.env]
 * @param {string} wanted.log File for what it writes.
 * @param {string} wanted.url
 * @param {string} wanted.readyPath Answers once it serves.
 * @param {number} [wanted.readyStatus] Status of that reply. Default: 200.
 * @param {number} wanted.timeoutMs
 * @param {number} [wanted.pollMs] Between two questions whether it serves. Default: 250.
 * @returns {Promise<Server>}
 */
export async function startServer({
  name,
  command,
  parameters,
  env = {},
  log,
  url,
  readyPath,
  readyStatus = 200,
  timeoutMs,
  pollMs = 250,
}) {
  mkdirSync(dirname(log), { recursive: true });
  const output = openSync(log, "w");
  const child = spawn(command, [...parameters], {
    env: { ...process.env, ...env },
    stdio: ["ignore", output, output],
    detached: true,
  });
  closeSync(output);
  /** @type {string | null} */
  let ended = null;
  child.on("error", (error) => (ended = error.message));
  const exit = new Promise((resolve) =>
    child.on("exit", (code, signal) => resolve((ended ??= `it ended with ${signal ?? code}`))),
  );
  const { pid } = child;
  if (pid !== undefined) groups.add(pid);
  const deadline = Date.now() + timeoutMs;
  while (!(await answers(url + readyPath, readyStatus))) {
    if (ended === null && Date.now() < deadline) {
      await delay(pollMs);
      continue;
    }
    process.stderr.write(`${readFileSync(log, "utf8").split("\n").slice(-30).join("\n")}\n`);
    throw new CannotVerify(
      `Cannot verify: ${name} does not serve (${ended ?? `not within ${timeoutMs / 1000} s`}); see above, and all of it in ${log}.`,
    );
  }
  const kill = async () => {
    if (pid === undefined) return;
    endGroup(pid);
    await exit;
  };
  return { url, log, pid: pid ?? 0, kill };
}

/** @param {string} url @param {number} status */
async function answers(url, status) {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(5000) });
    await answer.arrayBuffer();
    return answer.status === status;
  } catch {
    return false;
  }
}

function endAll() {
  for (const pid of groups) endGroup(pid);
}

/**
 * Kills a process and the processes that it started, as a machine that is switched off does.
 *
 * @param {number} pid
 */
function endGroup(pid) {
  groups.delete(pid);
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has already ended.
  }
}
