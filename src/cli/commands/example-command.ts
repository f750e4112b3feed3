// `example`: lists the numbered programs that come with the package, or runs one in a process of
// its own, as if its file had been started. Node 20 reads no TypeScript, and newer versions read
// none inside node_modules, so the hooks for users' modules read it.

import { spawn } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Command } from "commander";
import { ConfigurationError } from "../../core/index.ts";
import { type CliContext, exitCodes, type RunCommand } from "../cli-context.ts";
import { labelledRows, coloursFor } from "../display/terminal-text.ts";
import { remedyFor } from "../../lib/nearest.ts";

const folder = fileURLToPath(new URL("../../../examples/", import.meta.url));
const hooks = new URL("../../api/register-module-hooks.js", import.meta.url).href;

export function exampleCommand(run: RunCommand): Command {
  return new Command("example")
    .summary("run one of the example programs, or list them")
    .description(
      "The examples are small TypeScript programs in the package's examples folder, to read and copy. Without a name, this command " +
        "lists them; with a number or name, it runs that example, which prints what it does.",
    )
    .argument("[name]", "number or name, such as 03 or 03-a-rollout")
    .argument("[arguments...]", "arguments of the example")
    .addHelpText("after", "\nExamples:\n  $ npx trainable-agents example\n  $ npx trainable-agents example 03")
    .action(async (name: string | undefined, given: string[]) =>
      run((context) => (name === undefined ? list(context) : start(name, given, context))),
    );
}

/** The numbered programs in their order, without extension. */
async function exampleNames(): Promise<readonly string[]> {
  const files = (await readdir(folder)).filter((file) => /^\d\d-[^.]*\.ts$/.test(file));
  return files.toSorted().map((file) => file.slice(0, -".ts".length));
}

async function list({ stdout, env, program }: CliContext): Promise<number> {
  const rows = await Promise.all(
    (await exampleNames()).map(
      async (name) => [name, firstSentence(await readFile(join(folder, `${name}.ts`), "utf8"))] as const,
    ),
  );
  const lines = labelledRows(rows, coloursFor(stdout, env), stdout.columns ?? 80);
  stdout.write(
    `${lines.join("\n")}\n\nRun one: ${program} example ${rows[0]?.[0].slice(0, 2)}\nTheir files: ${folder}\n`,
  );
  return exitCodes.done;
}

/** First sentence of the comment at the top of a file. */
function firstSentence(source: string): string {
  const [comment = ""] = /^(?:\/\/.*\n)+/.exec(source) ?? [];
  const text = comment.replaceAll(/^\/\/ ?/gm, "").replaceAll("\n", " ");
  return /^.*?\.(?= |$)/.exec(text)?.[0] ?? text;
}

async function start(name: string, given: readonly string[], context: CliContext): Promise<number> {
  const names = await exampleNames();
  const wanted = /^\d$/.test(name) ? `0${name}` : name.replace(/^.*\//, "").replace(/\.[jt]s$/, "");
  const example = names.find((one) => one === wanted || one.startsWith(`${wanted}-`));
  if (example === undefined) {
    throw new ConfigurationError(`Cannot run example "${name}": it does not exist; ${remedyFor(wanted, names)}`);
  }
  const { stdout, stderr, env, cwd, drain, cancel } = context;
  const child = spawn(process.execPath, ["--import", hooks, join(folder, `${example}.ts`), ...given], {
    cwd,
    env: { ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  child.stdout.setEncoding("utf8").on("data", (text: string) => stdout.write(text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => stderr.write(text));
  const stop = (): void => void child.kill("SIGINT");
  for (const signal of [drain, cancel]) signal.addEventListener("abort", stop, { once: true });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  if (drain.aborted || cancel.aborted) return exitCodes.interrupted;
  return code ?? exitCodes.failed;
}
