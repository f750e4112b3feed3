// `npm run verify -- python`: requests of slime and of the client to the real service; rows of
// every format, read by the trainers' own Python libraries and by pandas, Hugging Face datasets and
// DuckDB; events read by TensorBoard. Installs them, pinned, into build/, never into the package.
// VERIFY_PYTHON names an environment that has them already; SLIME_REPO a checkout of slime whose
// own modules then replace the stand-in.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { root } from "../run-command.mjs";

const work = join(root, "build", "verify-python");
const tests = join(root, "python", "tests");

/** Resolves with 0; ends the process if a step fails. */
export async function verifyPython() {
  const python = installPython();
  const rows = join(work, "rows");
  rmSync(rows, { recursive: true, force: true });
  run(process.execPath, [join(root, "scripts", "verify", "export-fixtures.mjs"), rows]);
  run(
    python,
    [
      "-W",
      "ignore::ResourceWarning",
      "-m",
      "unittest",
      "discover",
      "--start-directory",
      tests,
      "--pattern",
      "test_*.py",
    ],
    {
      EXPORTED_ROWS: rows,
      PYTHONPATH: join(root, "python"),
      PYTHONDONTWRITEBYTECODE: "1",
      // Nothing here calls a remote server; an attempt must fail rather than wait.
      HF_HUB_OFFLINE: "1",
      HF_HOME: join(work, "hf"),
    },
  );
  return 0;
}

/** The Python that has the pinned packages: a virtual environment, or VERIFY_PYTHON. pip's own settings decide where they come from. */
export function installPython() {
  mkdirSync(work, { recursive: true });
  if (process.env["VERIFY_PYTHON"] !== undefined) return process.env["VERIFY_PYTHON"];
  const environment = join(work, "venv");
  const executable = join(environment, process.platform === "win32" ? "Scripts/python.exe" : "bin/python");
  const lists = ["requirements.txt", "requirements-alone.txt"].map((name) => join(tests, name));
  const wanted = lists.map((path) => readFileSync(path, "utf8")).join("\n");
  const stamp = join(work, "installed.txt");
  if (existsSync(executable) && existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return executable;
  rmSync(environment, { recursive: true, force: true });
  run("python3", ["-m", "venv", environment]);
  const install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"];
  run(executable, [...install, "-r", lists[0] ?? ""]);
  // Packages of which only sources and light modules are read; their dependencies would be
  // gigabytes.
  run(executable, [...install, "--no-deps", "-r", lists[1] ?? ""]);
  writeFileSync(stamp, wanted);
  return executable;
}

/**
 * @param {string} command
 * @param {readonly string[]} parameters
 * @param {NodeJS.ProcessEnv} [environment]
 */
function run(command, parameters, environment = {}) {
  const { status, error } = spawnSync(command, parameters, {
    cwd: work,
    stdio: "inherit",
    env: { ...process.env, ...environment },
  });
  if (status === 0) return;
  const remedy = error === undefined ? "see above" : `${error.message}; install Python 3.11 or later`;
  process.stderr.write(`Cannot verify: "${command} ${parameters.join(" ")}" ended with ${status}: ${remedy}.\n`);
  process.exit(1);
}
