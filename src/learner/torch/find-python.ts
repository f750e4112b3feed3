// The Python that trains: one that a setting names, one that an earlier --install made, or the
// first on the path. Everything that is missing is reported before anything is written.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, rm, statfs } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";

import { ConfigurationError } from "../../core/failure.ts";

export type PythonOptions = {
  /** Path or name of an interpreter; `null` for the installed one, or the first on the path. */
  readonly python: string | null;
  /** True to make an environment with the packages if the Python lacks them. */
  readonly install: boolean;
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  /** Receives a line before something takes minutes. */
  readonly onNotice: (message: string) => void;
};

export type FoundPython = { readonly program: string };

/** Packages by the name of their module; `gguf` is needed for GGUF files and adapters. */
const packages = { torch: "torch>=2.6", transformers: "transformers>=5", peft: "peft>=0.18", gguf: "gguf>=0.17" };
/** Space that PyTorch with the libraries of CUDA takes; 4.7 GB were measured on Linux. */
const installedBytes = 6e9;

const probe =
  "import importlib.util as u, json, sys; " +
  `print(json.dumps([sys.version_info[:2], [n for n in ${JSON.stringify(Object.keys(packages))} if u.find_spec(n) is None]]))`;

/**
 * Finds a Python with the packages. Rejects with a `ConfigurationError` that says what is missing,
 * or why the installation failed.
 */
export async function findPython(options: PythonOptions): Promise<FoundPython> {
  const folder = environmentFolder(options.variables);
  const installed = programIn(folder);
  const program = options.python ?? (existsSync(installed) ? installed : defaultPython());
  const found = await look(program, options);
  if (found === null) {
    throw new ConfigurationError(
      `Cannot train with torch: "${program}" does not start as Python; install Python 3.10 or newer, or name it with --python.`,
    );
  }
  const [[major, minor], missing] = found;
  if (major < 3 || (major === 3 && minor < 10)) {
    throw new ConfigurationError(
      `Cannot train with torch: "${program}" is Python ${major}.${minor}, expected 3.10 or newer; name another with --python.`,
    );
  }
  if (missing.length === 0) return { program };
  if (!options.install) {
    throw new ConfigurationError(
      `Cannot train with torch: "${program}" lacks ${missing.join(", ")}; pass --install to put them into ${folder} ` +
        `(about ${(installedBytes / 1e9).toFixed(0)} GB, mostly PyTorch), or name another Python with --python.`,
    );
  }
  await install(program, folder, options);
  const [, still] = (await look(installed, options)) ?? [[0, 0], Object.keys(packages)];
  if (still.length === 0) return { program: installed };
  throw new ConfigurationError(
    `Cannot train with torch: ${still.join(", ")} cannot be found in ${folder} after the installation; remove the folder and repeat it.`,
  );
}

async function install(
  program: string,
  folder: string,
  { variables, signal, onNotice }: Pick<PythonOptions, "variables" | "signal" | "onNotice">,
): Promise<void> {
  const parent = dirname(folder);
  const free = await freeBytes(parent);
  if (free !== null && free < installedBytes) {
    throw new ConfigurationError(
      `Cannot install torch into ${folder}: ${(free / 1e9).toFixed(1)} GB are free there, about ${(installedBytes / 1e9).toFixed(0)} are needed; ` +
        "free some space, or set XDG_CACHE_HOME to a folder on a larger disk.",
    );
  }
  onNotice(`Installing ${Object.keys(packages).join(", ")} into ${folder}; several GB are downloaded.`);
  await mkdir(parent, { recursive: true });
  const steps = [
    [program, "-m", "venv", folder],
    [programIn(folder), "-m", "pip", "install", "--disable-pip-version-check", "--quiet", ...Object.values(packages)],
  ];
  for (const [file = "", ...args] of steps) {
    const { code, errors } = await run(file, args, { variables, signal });
    if (code === 0) continue;
    await rm(folder, { recursive: true, force: true });
    throw new ConfigurationError(
      `Cannot install torch into ${folder}: "${args.slice(0, 3).join(" ")}" ended with ${code ?? "a signal"}: ${errors.trim().slice(-500)}; ` +
        "fix the cause, or install the packages yourself and name that Python with --python.",
    );
  }
}

/** Space on the disk of the nearest folder that exists; `null` if it is unknown. */
async function freeBytes(folder: string): Promise<number | null> {
  for (let place = folder; ; place = dirname(place)) {
    const disk = await statfs(place).catch(() => null);
    if (disk !== null) return disk.bavail * disk.bsize;
    if (dirname(place) === place) return null;
  }
}

/** Version and missing packages; `null` if the program is not a Python. */
async function look(
  program: string,
  { variables, signal }: Pick<PythonOptions, "variables" | "signal">,
): Promise<[[number, number], string[]] | null> {
  const { code, output } = await run(program, ["-c", probe], { variables, signal });
  try {
    return code === 0 ? (JSON.parse(output) as [[number, number], string[]]) : null;
  } catch {
    return null;
  }
}

const mostOutput = 100_000;

/** Runs a program to its end; resolves with `code` `null` if it did not start or was stopped. */
function run(
  file: string,
  args: readonly string[],
  { variables, signal }: Pick<PythonOptions, "variables" | "signal">,
): Promise<{ readonly code: number | null; readonly output: string; readonly errors: string }> {
  return new Promise((resolve) => {
    const child = spawn(file, args, { env: variables, signal, stdio: ["ignore", "pipe", "pipe"] });
    let [output, errors] = ["", ""];
    child.stdout.on("data", (chunk: Buffer) => (output = (output + chunk.toString()).slice(-mostOutput)));
    child.stderr.on("data", (chunk: Buffer) => (errors = (errors + chunk.toString()).slice(-mostOutput)));
    child.on("error", (error) => resolve({ code: null, output, errors: errors + error.message }));
    child.on("close", (code) => resolve({ code, output, errors }));
  });
}

/** Folder of the environment that --install makes. */
function environmentFolder(variables: PythonOptions["variables"]): string {
  const cache = variables["XDG_CACHE_HOME"] ?? join(homedir(), ".cache");
  return join(cache, "trainable-agents", "torch");
}

function programIn(folder: string): string {
  return process.platform === "win32" ? join(folder, "Scripts", "python.exe") : join(folder, "bin", "python");
}

function defaultPython(): string {
  return process.platform === "win32" ? "python" : "python3";
}
