// Python servers and clients for the verification of environments: each in its own virtual
// environment, with its own home and no variables of this process.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { CannotVerify } from "../python.mjs";
import { startServer } from "../servers.mjs";

/** The folder of the programs. */
export const here = fileURLToPath(new URL(".", import.meta.url));

/** @param {{ readonly folder: string, readonly python: string, readonly home: string }} place */
export function pythonServers({ folder, python, home }) {
  /**
   * @param {string} name
   * @param {readonly string[]} parameters
   * @param {{ readonly port: number, readonly cwd?: string, readonly readyPath?: string, readonly readyStatus?: number, readonly settings?: readonly string[] }} options
   */
  const serve = (name, parameters, { port, cwd = here, readyPath = "/health", readyStatus = 200, settings = [] }) =>
    startServer({
      name,
      command: "env",
      url: `http://127.0.0.1:${port}`,
      readyPath,
      readyStatus,
      timeoutMs: 240_000,
      log: join(folder, `${name}.log`),
      parameters: [
        ...["-i", "-C", cwd, `PATH=${process.env["PATH"] ?? ""}`, `HOME=${home}`, "PYTHONDONTWRITEBYTECODE=1"],
        ...[...settings, python, ...parameters],
      ],
    });
  const uvicorn = (/** @type {string} */ app, /** @type {number} */ port) => [
    ...["-m", "uvicorn", app, "--host", "127.0.0.1", "--port", String(port), "--log-level", "warning"],
  ];
  return { serve, uvicorn };
}

/**
 * The server's own count of its sessions. `unheard`: number of sessions that may be open because no
 * closing request reached the server: those of killed processes, or of a connection that failed
 * each time. An HTTP server removes them after 15 minutes of silence.
 *
 * @param {number} port
 */
export async function allClosed(port, { unheard = 0 } = {}) {
  let [made, closed] = [0, -1];
  for (let waited = 0; waited < 50 && made !== closed; waited++) {
    if (waited > 0) await delay(100);
    const answer = await fetch(`http://127.0.0.1:${port}/verify`);
    ({ made, closed } = /** @type {{ made: number, closed: number }} */ (await answer.json()));
  }
  const open = made - closed - (leased.get(port) ?? 0);
  if (open > unheard) throw new Error(`${open} of ${made} sessions are open on the server`);
  leased.set(port, made - closed);
  return open === 0
    ? `${made} sessions of the server, all closed`
    : `${made} sessions of the server, ${open} left to its lease`;
}

/**
 * Runs a program in Python, with its own home and no variables of this process;
 * resolves to its output.
 *
 * @param {string} python
 * @param {readonly string[]} parameters
 * @param {{ readonly cwd: string, readonly home: string }} options
 * @returns {Promise<string>}
 */
export function runClient(python, parameters, { cwd, home }) {
  const env = { PATH: process.env["PATH"], HOME: home, PYTHONDONTWRITEBYTECODE: "1" };
  const child = spawn(python, parameters, { cwd, env, stdio: ["ignore", "pipe", "pipe"], timeout: 120_000 });
  let [out, words] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text) => (out += text));
  child.stderr.setEncoding("utf8").on("data", (text) => (words += text));
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => {
      if (code === 0) resolve(out);
      else reject(new Error(`${parameters[0]} ended with ${code}: ${words.slice(-800)}`));
    });
  });
}

/** Sessions of earlier checks, by port. @type {Map<number, number>} */
const leased = new Map();

/**
 * Creates the scaffold that `openenv init` writes.
 *
 * @param {string} folder @param {string} openenv @param {string} home
 */
export function makeScaffold(folder, openenv, home) {
  const work = join(folder, "scaffold");
  const app = join(work, "verify_play", "server", "app.py");
  if (existsSync(app)) return work;
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  const { status, stderr } = spawnSync(openenv, ["init", "verify_play"], {
    cwd: work,
    encoding: "utf8",
    env: { PATH: process.env["PATH"], HOME: home },
  });
  if (status !== 0 || !existsSync(app)) throw new CannotVerify(`Cannot verify: "openenv init" failed: ${stderr}`);
  return work;
}
