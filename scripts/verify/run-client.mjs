// Client programs of a gateway's session, each with a HOME of its own and an emptied environment.

import { spawn } from "node:child_process";

/**
 * Runs a program until it ends, or is killed after `limitMs`.
 *
 * @param {string} command
 * @param {readonly string[]} parameters
 * @param {{ readonly folder: string, readonly key: string, readonly url: string, readonly limitMs: number }} session
 * @returns {Promise<{ readonly code: number | null, readonly output: string }>}
 */
export function runClient(command, parameters, { folder, key, url, limitMs }) {
  return new Promise((done, fail) => {
    const env = {
      PATH: process.env["PATH"],
      HOME: folder,
      NO_PROXY: "127.0.0.1",
      TRAINABLE_AGENTS_BASE_URL: `${url}/v1`,
      TRAINABLE_AGENTS_SESSION: key,
    };
    const child = spawn(command, parameters, { cwd: folder, env, timeout: limitMs, killSignal: "SIGKILL" });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (output += String(data)));
    child.on("error", fail);
    child.on("close", (code) => done({ code, output }));
  });
}
