// Runs other programs for the scripts: captured (checks show output only on failure) or attached to the terminal.

import { spawn } from "node:child_process";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * The repository root; scripts work from any folder. (`import.meta.dirname` would hide the message
 * for an old Node.)
 */
export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * Runs a program in the repository root and collects its output, stdout and stderr in order of
 * arrival. Never rejects: a program that cannot be started has code 127.
 *
 * @param {string} command
 * @param {readonly string[]} parameters
 * @param {{ readonly cwd?: string, readonly env?: NodeJS.ProcessEnv }} [options]
 * @returns {Promise<{ code: number, output: string, seconds: number }>}
 */
export function runCommand(command, parameters, options = {}) {
  const started = performance.now();
  return new Promise((resolve) => {
    const child = spawn(command, [...parameters], {
      cwd: options.cwd ?? root,
      env: options.env ?? process.env,
      stdio: ["ignore", "pipe", "pipe"],
      // npm is a script on Windows, which only a shell starts.
      shell: process.platform === "win32" && command === "npm",
    });
    let output = "";
    /** @param {number} code */
    const finish = (code) => {
      resolve({ code, output: output.trimEnd(), seconds: (performance.now() - started) / 1000 });
    };
    child.stdout.setEncoding("utf8").on("data", (/** @type {string} */ text) => (output += text));
    child.stderr.setEncoding("utf8").on("data", (/** @type {string} */ text) => (output += text));
    child.on("error", (error) => {
      output += error.message;
      finish(127);
    });
    child.on("close", (code) => finish(code ?? 1));
  });
}

/**
 * Runs a Node program with our terminal as its own and resolves to its exit code. Ctrl-C reaches it
 * directly, so it can end in its own way; a polite stop sent to us is passed on.
 *
 * @param {readonly string[]} parameters
 * @param {{ readonly cwd?: string, readonly env?: NodeJS.ProcessEnv }} [options]
 * @returns {Promise<number>}
 */
export function runAttached(parameters, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [...parameters], {
      cwd: options.cwd ?? root,
      env: options.env ?? process.env,
      stdio: "inherit",
    });
    process.on("SIGINT", () => {});
    process.on("SIGTERM", () => child.kill("SIGTERM"));
    child.on("error", reject);
    child.on("close", (code, signal) => resolve(code ?? (signal === "SIGINT" ? 130 : 143)));
  });
}
