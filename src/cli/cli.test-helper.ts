// Runs command lines in this process, in a folder of their own, and keeps their output.

import { mkdtemp, readdir, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCli } from "./run-cli.ts";

export type CliRun = { readonly code: number; readonly stdout: string; readonly stderr: string };

export type TestCli = {
  readonly folder: string;
  readonly drain: AbortController;
  readonly cancel: AbortController;
  run(this: void, ...argv: readonly string[]): Promise<CliRun>;
};

export async function createTestCli(
  env: Readonly<Record<string, string>> = {},
  options: {
    readonly onStdout?: (text: string) => void;
    readonly onStderr?: (text: string) => void;
    /** Width of the terminal of both streams; absent if they are not terminals. */
    readonly columns?: number;
  } = {},
): Promise<TestCli> {
  const folder = await mkdtemp(join(tmpdir(), "trainable-agents-"));
  const drain = new AbortController();
  const cancel = new AbortController();
  return {
    folder,
    drain,
    cancel,
    run: async (...argv) => {
      const written = { stdout: "", stderr: "" };
      const output = (stream: keyof typeof written) => ({
        ...(options.columns === undefined ? {} : { columns: options.columns }),
        write: (text: string) => {
          written[stream] += text;
          if (stream === "stdout") options.onStdout?.(text);
          else options.onStderr?.(text);
        },
      });
      const code = await runCli(argv, {
        stdout: output("stdout"),
        stderr: output("stderr"),
        env,
        cwd: folder,
        drain: drain.signal,
        cancel: cancel.signal,
        program: "npx trainable-agents",
      });
      return { code, ...written };
    },
  };
}

/**
 * Runs a command that serves and prints its address first; ends it when `use` is done. Resolves
 * with the output of the command; rejects when it ends by itself or with a code other than 0.
 */
export async function runServer(
  use: (url: string) => Promise<void>,
  server: {
    readonly argv: readonly string[];
    readonly env?: Readonly<Record<string, string>>;
    /** Signal that ends the server. Default "drain". */
    readonly ending?: "drain" | "cancel";
  },
): Promise<CliRun> {
  let announce: (url: string) => void = () => undefined;
  const announced = new Promise<string>((resolve) => {
    announce = resolve;
  });
  const cli = await createTestCli(server.env ?? {}, { onStdout: (text) => announce(text.trim()) });
  const ended = cli.run(...server.argv);
  const url = await Promise.race([announced, ended]);
  if (typeof url !== "string") throw new Error(`The server ended: ${url.stderr}`);
  try {
    await use(url);
  } finally {
    cli.drain.abort();
    if (server.ending === "cancel") cli.cancel.abort();
  }
  const run = await ended;
  if (run.code !== 0) throw new Error(`The server ended with code ${run.code}: ${run.stderr}`);
  return run;
}

/** All files in a folder, by path below it. */
export async function readAll(folder: string): Promise<ReadonlyMap<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return new Map(
    await Promise.all(
      files.map(async (entry) => {
        const path = join(entry.parentPath, entry.name);
        return [path.slice(folder.length + 1), await readFile(path, "utf8")] as const;
      }),
    ),
  );
}
