// The Python process that holds the weights. It ends when this process ends, even by a signal: it
// reads its standard input, which closes then.

import { spawn } from "node:child_process";
import { delimiter } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { ConfigurationError } from "../../core/failure.ts";

export type TorchOptions = {
  readonly python: string;
  /** The model: a folder of transformers, or a GGUF file. */
  readonly model: { readonly folder: string } | { readonly gguf: string; readonly tokenizerFolder: string };
  /** Checkpoint to continue from; `null` to begin. */
  readonly adapter: string | null;
  readonly weightVersion: string;
  /** Maximum number of tokens of prompt and reply together. */
  readonly context: number;
  readonly rank: number;
  /** `null` for torch's own choice. */
  readonly threads: number | null;
  readonly seed: number;
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
};

/** Facts that the process states when it is ready. */
export type TorchFacts = {
  readonly port: number;
  readonly parameters: number;
  readonly trained_parameters: number;
  readonly needed_bytes: number;
  readonly free_bytes: number | null;
  readonly saves_memory: boolean;
  readonly context: number;
  readonly device: string;
  readonly threads: number;
};

export type TorchProcess = {
  readonly facts: TorchFacts;
  /** Last lines that it wrote to its standard error, for messages. */
  readonly errors: () => string;
  close(): Promise<void>;
};

/** The Python package, both from src/ and from dist/. */
const packageFolder = fileURLToPath(new URL("../../../python", import.meta.url));
const keptErrors = 4000;

/**
 * Starts the process and waits until it serves. Rejects with a `ConfigurationError` that repeats
 * its message if it ends before.
 */
export async function startTorch(options: TorchOptions): Promise<TorchProcess> {
  const { python, model, adapter, weightVersion, context, rank, threads, seed, variables, signal } = options;
  const named =
    "folder" in model ? ["--model", model.folder] : ["--gguf", model.gguf, "--write-tokenizer", model.tokenizerFolder];
  const args = [
    ...["-m", "trainable_agents.torch_server", "--with-parent", ...named],
    ...[
      "--weight-version",
      weightVersion,
      "--context",
      String(context),
      "--rank",
      String(rank),
      "--seed",
      String(seed),
    ],
    ...(adapter === null ? [] : ["--adapter", adapter]),
    ...(threads === null ? [] : ["--threads", String(threads)]),
  ];
  const path = [packageFolder, variables["PYTHONPATH"]].filter((one) => one !== undefined && one !== "");
  const child = spawn(python, args, {
    stdio: ["pipe", "pipe", "pipe"],
    env: {
      ...variables,
      PYTHONPATH: path.join(delimiter),
      PYTHONDONTWRITEBYTECODE: "1",
      // The weights are here; nothing is to be fetched.
      HF_HUB_OFFLINE: "1",
    },
  });
  let errors = "";
  child.stderr.on("data", (chunk: Buffer) => (errors = (errors + chunk.toString()).slice(-keptErrors)));
  // The pipe breaks when the process ends first.
  child.stdin.on("error", () => undefined);
  const ended = new Promise<void>((resolve) => {
    child.once("close", () => resolve());
    child.once("error", (error) => {
      errors += error.message;
      resolve();
    });
  });
  const close = async (): Promise<void> => {
    child.kill("SIGKILL");
    await ended;
  };
  const stop = (): void => void close();
  signal.addEventListener("abort", stop, { once: true });
  try {
    const facts = await Promise.race([firstLine(child.stdout), ended.then(() => null)]);
    if (facts !== null) return { facts, errors: () => errors, close };
    const last = errors.trim().split("\n").at(-1) ?? "";
    throw new ConfigurationError(
      last.startsWith("Cannot ")
        ? last
        : `Cannot train with torch: the Python process ended before it served: ${last || "it said nothing"}; fix the cause, or name another --python.`,
    );
  } catch (error) {
    await close();
    throw error;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** The facts, which are its first line of JSON; `null` if its output ends before. */
async function firstLine(output: NodeJS.ReadableStream): Promise<TorchFacts | null> {
  for await (const line of createInterface({ input: output })) {
    if (!line.startsWith("{")) continue;
    output.resume();
    return JSON.parse(line) as TorchFacts;
  }
  return null;
}
