// Starts the Python stand-in (`bench/python/seed_loop.py`) in a virtual environment below the
// folder for temporary files, which is created once. Not a benchmark: `python-loop.mjs` is.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("../python/", import.meta.url));

/**
 * Path of the Python with the packages of `bench/python/requirements.txt`; a sentence with the
 * reason if there is none.
 */
export function pythonWithTransformers() {
  const own = process.env.BENCH_PYTHON;
  if (own !== undefined) return { executable: own, problem: null };
  const environment = join(tmpdir(), "trainable-agents-bench-python");
  const executable = join(environment, process.platform === "win32" ? "Scripts/python.exe" : "bin/python");
  const list = join(folder, "requirements.txt");
  const stamp = join(environment, "installed.txt");
  const wanted = readFileSync(list, "utf8");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return { executable, problem: null };
  const steps = [
    { command: "python3", parameters: ["-m", "venv", environment] },
    {
      command: executable,
      parameters: ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", list],
    },
  ];
  for (const { command, parameters } of steps) {
    const { status, error } = spawnSync(command, parameters, { stdio: ["ignore", "ignore", "inherit"] });
    if (status === 0) continue;
    const reason = error?.message ?? `it ended with code ${status}`;
    return { executable: null, problem: `"${command} ${parameters.slice(0, 3).join(" ")}" failed (${reason})` };
  }
  writeFileSync(stamp, wanted);
  return { executable, problem: null };
}

/**
 * Runs all episodes of a script once for each call of `run`, and returns the number of turns and
 * the CPU microseconds.
 */
export async function startPythonLoop(executable, script) {
  const child = spawn(executable, [join(folder, "seed_loop.py"), script], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, HF_HUB_OFFLINE: "1", TOKENIZERS_PARALLELISM: "false", TRANSFORMERS_VERBOSITY: "error" },
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const answer = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error("Cannot continue: the Python stand-in has ended; see its message above.");
    return JSON.parse(value);
  };
  await answer();
  return {
    run: async () => {
      child.stdin.write("run\n");
      return answer();
    },
    close: () => child.stdin.end(),
  };
}
