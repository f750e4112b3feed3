// `prepare`: data of a benchmark made ready in a folder. Not needed to play, which reads a checkout just as well; a prepared
// folder opens faster, can be copied, and needs no git.

import { relative, resolve } from "node:path";
import { Command, Option } from "commander";
import { ConfigurationError } from "../../core/index.ts";
import { prepareTauBench } from "../../environments/tau-bench/index.ts";
import { type CliContext, exitCodes } from "../cli-context.ts";
import type { RunCommand } from "./command-result.ts";
import { quoted } from "../rollout-display.ts";
import { sayWhenInterrupted } from "../until-aborted.ts";

type PrepareFlags = { readonly from?: string; readonly to?: string };

export function prepareCommand(run: RunCommand): Command {
  return new Command("prepare")
    .summary("make the data of tau-bench ready in a folder")
    .description(
      "Reads an upstream checkout of tau-bench as data (nothing of it is executed) and writes tables, guidelines, tools, tasks, " +
        "user prompts and few-shot displays into a folder. Without --from, the pinned commit is cloned with git.",
    )
    .argument("<benchmark>", "tau-bench")
    .addOption(new Option("--from <checkout>", "folder of an upstream checkout (default: clone the pinned commit)"))
    .addOption(new Option("--to <folder>", "folder that is made; must be new or empty"))
    .addHelpText(
      "after",
      `
Examples:
  $ npx trainable-agents prepare tau-bench --to ./tau-bench
  $ npx trainable-agents prepare tau-bench --from ../tau-bench --to ./tau-bench-data`,
    )
    .action(async (benchmark: string, flags: PrepareFlags) => run((context) => prepare(benchmark, flags, context)));
}

async function prepare(benchmark: string, { from, to }: PrepareFlags, context: CliContext): Promise<number> {
  const { cwd, stdout, stderr, program, cancel, drain } = context;
  if (benchmark !== "tau-bench") {
    throw new ConfigurationError(`Cannot prepare "${benchmark}": there is tau-bench; write "prepare tau-bench".`);
  }
  if (to === undefined) {
    throw new ConfigurationError("Cannot prepare tau-bench: no folder is named; give --to <folder>.");
  }
  const isSaid = sayWhenInterrupted(drain, () => void stderr.write("Interrupted: nothing is kept.\n"));
  const { folder, files, commit } = await prepareTauBench({
    to: resolve(cwd, to),
    ...(from === undefined ? {} : { from: resolve(cwd, from) }),
    onProgress: (line) => void stderr.write(`${line}\n`),
    // There is nothing to finish gently: the first Ctrl-C stops.
    signal: AbortSignal.any([drain, cancel]),
  }).finally(isSaid);
  const shown = relative(cwd, folder) || folder;
  stdout.write(
    `${files.length} files in ${shown}${commit === null ? "" : ` (commit ${commit.slice(0, 12)})`}\n` +
      `Next: ${program} rollout --env tau-bench/retail --data ${quoted(shown)} --url <server> --model <folder> --user-model <provider/model>\n`,
  );
  return exitCodes.done;
}
